/* Holds a provider to libfabric's manual pages, call by call. See `run` for how it is started. */
#include "host.h"
#include "world.h"

#include <stdlib.h>
#include <unistd.h>

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	/* First: nothing has been taken into use yet. */
	{"footprint", test_footprint}, {"away", test_away},
	{"info", test_info},           {"objects", test_objects},
	{"addresses", test_addresses}, {"places", test_places},
	{"meeting", test_meeting},     {"messages", test_messages},
	{"tagged", test_tagged},       {"probing", test_probing},
	{"completions", test_completions}, {"waiting", test_waiting},
	{"naps", test_naps},
	{"memory", test_memory},       {"atomics", test_atomics},
	{"threads", test_threads},     {"flags", test_flags},
	{"manual", test_manual},
	{"events", test_events},       {"failures", test_failures},
	{"misuse", test_misuse},       {"bounds", test_bounds},
};

static int is_wanted(const char *name, int count, char **arguments)
{
	for (int i = 1; i < count; i++)
		if (!strcmp(arguments[i], name))
			return 1;
	return count < 2;
}

int main(int count, char **arguments)
{
	/* Nothing here takes long; what hangs is ended. */
	alarm(300);
	setvbuf(stdout, NULL, _IOLBF, 0);
	host_enter(0);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
		int before = checks_failed;
		double start = now();

		if (!is_wanted(tests[i].name, count, arguments))
			continue;
		tests[i].run();
		printf("%-12s %s (%.2f s)\n", tests[i].name, checks_failed == before ? "ok" : "FAILED",
		       now() - start);
	}
	printf("%d checks, %d failed\n", checks_made, checks_failed);
	return checks_failed != 0 || checks_made == 0;
}
