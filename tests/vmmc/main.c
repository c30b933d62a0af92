/*
 * Holds libvmmc.so to its header, call by call.
 *
 *   conformance [TEST...]          with another process that it starts, on this machine
 *   conformance peer               the other process: does what its input says
 *   conformance active [TEST...]   with one that runs already, perhaps on another machine: its input is that one's output, and
 *                                  its output that one's input
 */
#include <signal.h>

#include "check.h"

struct peer them;
vmmc_process_t self;
int is_here;

/* Both processes are initialized for it. */
#define BOTH 1

static const struct test tests[] = {
	{"layout", test_layout, 0},
	{"library", test_library, 0},
	{"names", test_names, BOTH},
	{"exporting", test_exporting, BOTH},
	{"permission", test_permission, BOTH},
	{"importing", test_importing, BOTH},
	{"waiting_imports", test_waiting_imports, BOTH},
	{"addresses", test_addresses, BOTH},
	{"sizes", test_sizes, BOTH},
	{"order", test_order, BOTH},
	{"asynchronous", test_asynchronous, BOTH},
	{"receiving", test_receiving, BOTH},
	{"notifications", test_notifications, BOTH},
	{"blocking", test_blocking, BOTH},
	{"computing", test_computing, BOTH},
	{"redirection", test_redirection, BOTH},
	{"late_redirection", test_late_redirection, BOTH},
	{"generations", test_generations, BOTH},
	{"closed", test_closed, BOTH},
	{"restart", test_restart, BOTH},
	{"silence", test_silence, BOTH},
	{"killed", test_killed, BOTH},
	{"itself", test_itself, BOTH},
	{"threads", test_threads, BOTH},
	{"many", test_many, BOTH},
	{"finalized", test_finalized, BOTH},
	{"fork", test_fork, BOTH},
};

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

static void around(const struct test *test, int before)
{
	if (test->kind != BOTH)
		return;
	if (before) {
		MUST(vmmc_init(VMMC_ANY_PROCESS));
		MUST(vmmc_self(&self));
		init_peer(&them, -1);
		is_here = them.self.node == self.node;
	} else {
		OK(ask(&them, "finalize"));
		OK(vmmc_finalize());
	}
}

int main(int count, char **arguments)
{
	int active = count > 1 && !strcmp(arguments[1], "active");
	begin_program(arguments);
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
	run_tests(tests, sizeof tests / sizeof *tests, count - 1 - active, arguments + 1 + active, around, stderr);
	if (active)
		tell(&them, "exit");
	else
		stop_peer(&them);
	return end_program(stderr);
}
