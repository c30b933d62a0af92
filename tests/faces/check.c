/* What the conformance programs of the faces share. */
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

int checks, failures;
const char *current = "", *program;

/* Seconds for a whole program, below what whoever has started it waits: so it can say where it hangs. */
#define PROGRAM_MAX 280

/* Codes of all kinds: more than there are. */
#define CODES_MAX 512
static struct code {
	const char *kind;
	long code;
} codes[CODES_MAX];
static int code_count;
static pthread_mutex_t codes_lock = PTHREAD_MUTEX_INITIALIZER;

void provoked(const char *kind, long code)
{
	int known = 0;
	pthread_mutex_lock(&codes_lock);
	for (int i = 0; i < code_count && !known; i++)
		known = codes[i].code == code && strcmp(codes[i].kind, kind) == 0;
	if (!known && code_count < CODES_MAX)
		codes[code_count++] = (struct code){kind, code};
	pthread_mutex_unlock(&codes_lock);
}

unsigned char byte_of(size_t i, unsigned seed)
{
	return (unsigned char)(1 + (seed * 31 + i * 7 + (i >> 8)) % 255);
}

void fill(unsigned char *memory, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		memory[i] = byte_of(i, seed);
}

int is_filled(const unsigned char *memory, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		if (memory[i] != byte_of(i, seed))
			return 0;
	return 1;
}

double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void pause_ms(unsigned ms)
{
	usleep(ms * 1000);
}

/* As the system shows it: the letter behind the name, which may have spaces. */
static char state_of_process(int id)
{
	char path[32], line[256] = "";
	snprintf(path, sizeof path, "/proc/%d/stat", id);
	FILE *file = fopen(path, "r");
	if (!file)
		return 0;
	if (!fgets(line, sizeof line, file))
		line[0] = 0;
	fclose(file);
	const char *end = strrchr(line, ')');
	return end && end[1] ? end[2] : 0;
}

void stop_process(int id)
{
	/* Nobody waits for it: it may be another one's child. */
	kill(id, SIGSTOP);
	UNTIL(state_of_process(id) == 'T');
}

static void hangs(int ignored)
{
	static const char before[] = "the program hangs in ", after[] = "\n";
	ssize_t written = 0;
	(void)ignored;
	written += write(STDERR_FILENO, before, sizeof before - 1);
	written += write(STDERR_FILENO, current, strlen(current));
	written += write(STDERR_FILENO, after, 1);
	_exit(written > 0 ? 14 : 15);
}

void begin_program(char **arguments)
{
	program = arguments[0];
	signal(SIGALRM, hangs);
	alarm(PROGRAM_MAX);
}

static int is_wanted(const char *name, int names, char **wanted)
{
	for (int i = 0; i < names; i++)
		if (strcmp(name, wanted[i]) == 0)
			return 1;
	return names == 0;
}

void run_tests(const struct test *tests, size_t count, int names, char **wanted,
    void (*around)(const struct test *test, int before), FILE *report)
{
	for (size_t i = 0; i < count; i++) {
		if (!is_wanted(tests[i].name, names, wanted))
			continue;
		double start = seconds();
		current = tests[i].name;
		around(&tests[i], 1);
		tests[i].run();
		around(&tests[i], 0);
		fprintf(report, "%-16s %.2f s\n", tests[i].name, seconds() - start);
		fflush(report);
	}
}

int end_program(FILE *report)
{
	for (int i = 0; i < code_count; i++)
		fprintf(report, "provoked %s %ld\n", codes[i].kind, codes[i].code);
	fprintf(report, "%d checks, %d failed\n", checks, failures);
	return failures != 0;
}
