// SPDX-License-Identifier: MIT
// A program that puts a file under its own standard input and reads on by
// the stream gets that file's bytes, from its position.
// Why: the C library fills its buffers by a read of its own that no preload
// sees; a position kept outside the kernel is then the wrong one.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kLines = 30000, kLine = 8 };  // "1234567\n"
static char name[] = "input-XXXXXX";
static int problems;

static void make_file(void) {
  int fd = mkstemp(name);
  FILE* f = fdopen(fd, "w");
  for (int i = 0; i < kLines; ++i) fprintf(f, "%07d\n", i);
  if (fclose(f)) exit(2);
}

static int by_close_and_open(void) {
  close(0);
  return open(name, O_RDONLY);
}
static int by_dup2(void) {
  int fd = open(name, O_RDONLY), got = dup2(fd, 0);
  close(fd);
  return got;
}
static int by_dup3_of_used(void) {
  int fd = open(name, O_RDONLY);
  char one[kLine];
  if (pread(fd, one, kLine, 0) != kLine) return -1;
  int got = dup3(fd, 0, 0);
  close(fd);
  return got;
}

static long by_fgets(void) {
  char line[100];
  return fgets(line, sizeof line, stdin) ? atol(line) : -1;
}
static long by_fread(void) {
  char line[kLine + 1] = "";
  return fread(line, 1, kLine, stdin) == kLine ? atol(line) : -1;
}
static long by_getchar(void) {
  char line[kLine + 1] = "";
  for (int i = 0; i < kLine; ++i) line[i] = (char)getchar();
  return atol(line);
}
static long by_getline(void) {
  char* line = NULL;
  size_t room = 0;
  long value = getline(&line, &room, stdin) > 0 ? atol(line) : -1;
  free(line);
  return value;
}
static long by_scanf(void) {
  long value;
  return scanf("%ld\n", &value) == 1 ? value : -1;
}

static void try(const char* how, int (*redirect)(void), long (*next)(void)) {
  char block[kLine * 1000];
  __fpurge(stdin);
  clearerr(stdin);
  long first = -2, second = -2, position = -2;
  if (redirect() == 0 && read(0, block, sizeof block) == sizeof block) {
    first = next();
    second = next();
    position = ftell(stdin);
  }
  if (first != 1000 || second != 1001) {
    printf("problem: %s: lines %ld, %ld at %ld\n", how, first, second,
           position);
    ++problems;
  }
}

int main(void) {
  make_file();
  int (*const redirects[])(void) = {by_close_and_open, by_dup2,
                                    by_dup3_of_used};
  const char* const names[] = {"open", "dup2", "dup3"};
  for (int i = 0; i < 3; ++i) {
    try(names[i], redirects[i], by_fgets);
    try(names[i], redirects[i], by_fread);
    try(names[i], redirects[i], by_getchar);
    try(names[i], redirects[i], by_getline);
    try(names[i], redirects[i], by_scanf);
  }
  unlink(name);
  puts(problems ? "FAIL" : "PASS");
  return problems != 0;
}
