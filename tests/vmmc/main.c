/*
 * Holds libvmmc.so to its header, call by call.
 *
 *   conformance [TEST...]          with another process that it starts, on this machine
 *   conformance peer               the other process: does what its input says
 *   conformance active [TEST...]   with one that runs already, perhaps on another machine: its input is that one's output, and
 *                                  its output that one's input
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

int checks, failures;
const char *current = "", *program;
struct peer them;
vmmc_process_t self;
int is_here;

static const struct {
	const char *name;
	void (*run)(void);
	/* Both processes are initialized for it. */
	int needs_both;
} tests[] = {
	{"layout", test_layout, 0},
	{"library", test_library, 0},
	{"names", test_names, 1},
	{"exporting", test_exporting, 1},
	{"permission", test_permission, 1},
	{"importing", test_importing, 1},
	{"waiting_imports", test_waiting_imports, 1},
	{"addresses", test_addresses, 1},
	{"sizes", test_sizes, 1},
	{"order", test_order, 1},
	{"asynchronous", test_asynchronous, 1},
	{"receiving", test_receiving, 1},
	{"notifications", test_notifications, 1},
	{"blocking", test_blocking, 1},
	{"computing", test_computing, 1},
	{"redirection", test_redirection, 1},
	{"late_redirection", test_late_redirection, 1},
	{"generations", test_generations, 1},
	{"closed", test_closed, 1},
	{"restart", test_restart, 1},
	{"silence", test_silence, 1},
	{"killed", test_killed, 1},
	{"itself", test_itself, 1},
	{"threads", test_threads, 1},
	{"many", test_many, 1},
	{"finalized", test_finalized, 1},
	{"fork", test_fork, 1},
};

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

/* Never zero, which is what is there before. */
static unsigned char byte_of(size_t i, unsigned seed)
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

int gets_filled(const volatile unsigned char *memory, size_t length, unsigned seed)
{
	double end = seconds() + LONG / 1000;
	for (size_t i = 0; i < length; i++)
		while (memory[i] != byte_of(i, seed)) {
			if (seconds() > end)
				return 0;
			vmmc_poll();
		}
	return 1;
}

vmmc_proxy_t import(struct peer *peer, uint32_t id, uint64_t bytes)
{
	vmmc_proxy_t proxy = NULL;
	uint64_t size = 0;
	MUST(vmmc_import(&peer->self, id, LONG, &proxy, &size));
	CHECK(proxy != NULL);
	CHECK(size == bytes);
	return proxy;
}

static int wanted(const char *name, int count, char **names)
{
	for (int i = 0; i < count; i++)
		if (strcmp(name, names[i]) == 0)
			return 1;
	return count == 0;
}

int main(int count, char **arguments)
{
	int active = count > 1 && !strcmp(arguments[1], "active");
	program = arguments[0];
	/* A call that hangs is a failure, and says where. */
	alarm(280);
	signal(SIGPIPE, SIG_IGN);
	if (count > 1 && !strcmp(arguments[1], "peer"))
		return serve(stdin, stdout);
	if (active) {
		/* The report goes where errors go. */
		them.from = stdin;
		them.to = stdout;
	} else {
		start_peer(&them);
	}
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
		double start = seconds();
		if (!wanted(tests[i].name, count - 1 - active, arguments + 1 + active))
			continue;
		current = tests[i].name;
		if (tests[i].needs_both) {
			MUST(vmmc_init(VMMC_ANY_PROCESS));
			MUST(vmmc_self(&self));
			init_peer(&them, -1);
			is_here = them.self.node == self.node;
		}
		tests[i].run();
		if (tests[i].needs_both) {
			OK(ask(&them, "finalize"));
			OK(vmmc_finalize());
		}
		fprintf(stderr, "%-16s %.2f s\n", tests[i].name, seconds() - start);
	}
	if (active)
		tell(&them, "exit");
	else
		stop_peer(&them);
	fprintf(stderr, "%d checks, %d failed\n", checks, failures);
	return failures != 0;
}
