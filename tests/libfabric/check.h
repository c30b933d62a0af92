/* Checks that say what they saw, and go on. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <string.h>

extern int checks_failed, checks_made;

/* Holds, or says what does not. */
#define CHECK(condition)                                                                          \
	do {                                                                                      \
		checks_made++;                                                                    \
		if (!(condition)) {                                                               \
			checks_failed++;                                                          \
			printf("%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition); \
		}                                                                                 \
	} while (0)

/* Two whole numbers are the same. */
#define EQUAL(seen, wanted)                                                                       \
	do {                                                                                      \
		long long seen_ = (long long)(seen), wanted_ = (long long)(wanted);               \
		checks_made++;                                                                    \
		if (seen_ != wanted_) {                                                           \
			checks_failed++;                                                          \
			printf("%s:%d: %s: %s is %lld, should be %lld (%s)\n", __FILE__, __LINE__, \
			       __func__, #seen, seen_, wanted_, #wanted);                         \
		}                                                                                 \
	} while (0)

#endif
