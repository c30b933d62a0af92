/*
 * What the conformance programs of the faces share: checks that count, waiting for what is to happen, memory that can be told
 * apart, and the run of tests by name.
 *
 * A face's own check.h includes its header, says what SUCCESS is and how a code is shown (CODE_NAME), and then includes this.
 */
#ifndef FACES_CHECK_H
#define FACES_CHECK_H

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int checks, failures;
/* The test that runs. */
extern const char *current;
/* This program, to be run again. */
extern const char *program;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		__atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);                                  \
		if (!(condition)) {                                                                \
			__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);                        \
			fprintf(stderr, "%s:%d: in %s: %s\n", __FILE__, __LINE__, current,         \
			    #condition);                                                           \
		}                                                                                  \
	} while (0)

/* Notes that a code has been seen, so that the last lines can say which: "provoked return 3". */
void provoked(const char *kind, long code);

/* A call's return code is the one that is documented. */
#define RETURNS(call, wanted)                                                                      \
	do {                                                                                       \
		__auto_type got_ = (call);                                                         \
		provoked("return", (long)got_);                                                    \
		__atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);                                  \
		if (got_ != (wanted)) {                                                            \
			__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);                        \
			fprintf(stderr, "%s:%d: in %s: %s: %d (%s), not %d (%s)\n", __FILE__,      \
			    __LINE__, current, #call, (int)got_, CODE_NAME(got_), (int)(wanted),   \
			    CODE_NAME(wanted));                                                    \
		}                                                                                  \
	} while (0)

#define OK(call) RETURNS(call, SUCCESS)

/* Nothing further makes sense. */
#define MUST(call)                                                                                 \
	do {                                                                                       \
		__auto_type got_ = (call);                                                         \
		if (got_ != SUCCESS) {                                                             \
			fprintf(stderr, "%s:%d: in %s: %s: %s\n", __FILE__, __LINE__, current,     \
			    #call, CODE_NAME(got_));                                               \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Milliseconds: long enough for anything that is to happen, whatever else the machine does. */
#define LONG 30000u

/* Does something until a condition holds, which it must in the end. */
#define UNTIL_BY(condition, action)                                                                \
	do {                                                                                       \
		double end_ = seconds() + LONG / 1000.0;                                           \
		while (!(condition) && seconds() < end_)                                           \
			action;                                                                    \
		CHECK(condition);                                                                  \
	} while (0)

/* Waits until it holds, without a call of the library unless the condition has one. */
#define UNTIL(condition) UNTIL_BY(condition, pause_ms(1))

/* What programs have compiled in: a program for another layout is not built. */
#define SIZE(type, bytes, align)                                                                   \
	static_assert(sizeof(type) == (bytes) && alignof(type) == (align), #type)
#define AT(type, member, place) static_assert(offsetof(type, member) == (place), #type "." #member)
#define IS(name, value) static_assert((name) == (value), #name)

/* What threads and handlers tell each other. */
#define GET(flag) __atomic_load_n(&(flag), __ATOMIC_SEQ_CST)
#define SET(flag, value) __atomic_store_n(&(flag), value, __ATOMIC_SEQ_CST)

/* A pattern without zeros, which are what is there before. */
void fill(unsigned char *memory, size_t length, unsigned seed);
int is_filled(const unsigned char *memory, size_t length, unsigned seed);
unsigned char byte_of(size_t i, unsigned seed);

double seconds(void);
void pause_ms(unsigned ms);

/* Stops a process of this machine, and returns when it stands still. */
void stop_process(int id);

/* To be called first: a program that hangs is ended, and says in which test it was. */
void begin_program(char **arguments);

struct test {
	const char *name;
	void (*run)(void);
	/* Something that the face's program makes of it. */
	int kind;
};

/* Runs the tests of these names, all if there are none; `around` before each and after it. Lines go to `report`. */
void run_tests(const struct test *tests, size_t count, int names, char **wanted,
    void (*around)(const struct test *test, int before), FILE *report);
/* The last lines; the program's exit code. */
int end_program(FILE *report);

#endif
