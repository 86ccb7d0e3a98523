# SPDX-License-Identifier: MIT
# Completion of racache(1) for bash. The words come from the command's own
# help, so that they are always those of the command installed.

_racache_words() { # SUBCOMMAND or nothing: the options that --help lists
  racache ${1:+"$1"} --help 2>/dev/null |
    grep -oE '^ +(-[a-zA-Z],)?--[a-z-]+' | grep -oE -- '--[a-z-]+'
}

_racache_subcommands() {
  racache --help 2>/dev/null |
    sed -n '/^S[Uu][Bb][Cc][Oo][Mm][Mm][Aa][Nn][Dd][Ss]:/,$p' |
    grep -oE '^  [a-z]+' | tr -d ' '
}

_racache() {
  local word=${COMP_WORDS[COMP_CWORD]} subcommand=${COMP_WORDS[1]} i
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "$(_racache_subcommands) --help --version" -- "$word"))
    return
  fi
  if [ "$subcommand" = run ]; then
    # Behind "--" stands another program with completions of its own.
    for ((i = 2; i < COMP_CWORD; i++)); do
      [ "${COMP_WORDS[i]}" = -- ] || continue
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      else
        COMPREPLY=($(compgen -c -f -- "$word"))
      fi
      return
    done
  fi
  case $word in
    -*) COMPREPLY=($(compgen -W "$(_racache_words "$subcommand")" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}
complete -o filenames -F _racache racache
