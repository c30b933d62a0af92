/* The library, names, exports and imports. */
#include <pthread.h>
#include <stddef.h>

#include "check.h"

void test_layout(void)
{
	CHECK(sizeof(vmmc_process_t) == 16);
	CHECK(offsetof(vmmc_process_t, number) == 8);
	CHECK(sizeof(vmmc_notification_t) == 40);
	CHECK(offsetof(vmmc_notification_t, id) == 16 && offsetof(vmmc_notification_t, offset) == 24);
	CHECK(offsetof(vmmc_notification_t, bytes) == 32);
	CHECK(sizeof(vmmc_import_info_t) == 40);
	CHECK(offsetof(vmmc_import_info_t, generation) == 20 && offsetof(vmmc_import_info_t, state) == 32);
	CHECK(sizeof(vmmc_proxy_t) == 8 && sizeof(vmmc_send_t) == 8);
	for (int code = 0; code >= VMMC_E_BROKEN; code--)
		CHECK(strcmp(vmmc_error(code), "unknown error") != 0);
	CHECK(strcmp(vmmc_error(1), "unknown error") == 0);
	CHECK(strcmp(vmmc_error(VMMC_E_BROKEN - 1), "unknown error") == 0);
	CHECK(strcmp(vmmc_error(VMMC_OK), "success") == 0);
	CHECK(vmmc_page_size() == 4096);
	CHECK(vmmc_word_size() == 4);
}

/* What `call` returns with a variable of the environment set. */
static int init_with(const char *name, const char *value)
{
	char before[256] = "";
	const char *old = getenv(name);
	if (old)
		snprintf(before, sizeof before, "%s", old);
	setenv(name, value, 1);
	int code = vmmc_init(VMMC_ANY_PROCESS);
	if (old)
		setenv(name, before, 1);
	else
		unsetenv(name);
	return code;
}

void test_library(void)
{
	char byte = 1, name[8];
	uint64_t number;
	uint32_t few;
	vmmc_proxy_t proxy = NULL;
	vmmc_process_t process = {1, 1, 0};
	vmmc_import_info_t info;
	vmmc_send_t request = 1;
	volatile int64_t bytes;
	RETURNS(vmmc_finalize(), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_self(&process), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_node("ann", &number), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_host(1, name, sizeof name), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_hosts(&number, 1, &few), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_export(&byte, 1, 1, NULL, 0, NULL, NULL), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_permit(1, NULL, 0), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_unexport(1), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_import(&process, 1, 0, &proxy, NULL), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_import_start(&process, 1, &proxy, &bytes), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_import_info(proxy, &info), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_unimport(proxy), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_send(&byte, proxy, 1), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_send_notify(&byte, proxy, 1), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_send_start(&byte, proxy, 1, 0, &request), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_send_test(&request), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_send_wait(&request, 0), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_drain(0), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_poll(), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_block_notifications(), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_unblock_notifications(), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_redirect(1, 0, &byte, 1, NULL), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_restore(1, 0), VMMC_E_NOT_INITIALIZED);
	RETURNS(vmmc_taken(1, 0, 1), VMMC_E_NOT_INITIALIZED);

	RETURNS(vmmc_init(VMMC_PROCESSES), VMMC_E_ARGUMENT);
	RETURNS(init_with("EMP_LINK", "nonsense"), VMMC_E_SETTINGS);
	RETURNS(init_with("EMP_TIMEOUT", "7"), VMMC_E_SETTINGS);
	RETURNS(init_with("EMP_INTERFACE", "nosuch0"), VMMC_E_NO_NETWORK);
	for (int round = 0; round < 3; round++) {
		OK(vmmc_init(77));
		RETURNS(vmmc_init(78), VMMC_E_INITIALIZED);
		RETURNS(vmmc_self(NULL), VMMC_E_ARGUMENT);
		OK(vmmc_self(&process));
		CHECK(process.number == 77 && process.node != 0 && process.node >> 48 == 0 && process.zero == 0);
		/* Two of one number: not on one machine. */
		struct peer second;
		start_peer(&second);
		RETURNS(ask(&second, "init 77"), VMMC_E_PROCESS_IN_USE);
		OK(ask(&second, "init %u", VMMC_ANY_PROCESS));
		CHECK((uint64_t)heard[0] == process.node && heard[1] != 77);
		stop_peer(&second);
		OK(vmmc_finalize());
		RETURNS(vmmc_finalize(), VMMC_E_NOT_INITIALIZED);
	}
}

void test_names(void)
{
	char name[80], again[80], text[32];
	uint64_t node = 0, nodes[4];
	uint32_t count = 0;
	OK(vmmc_host(self.node, name, sizeof name));
	CHECK(name[0] != 0);
	OK(vmmc_node(name, &node));
	CHECK(node == self.node);
	snprintf(text, sizeof text, "%u.%u.%u.%u", (unsigned)(self.node >> 24) & 255, (unsigned)(self.node >> 16) & 255,
	    (unsigned)(self.node >> 8) & 255, (unsigned)self.node & 255);
	node = 0;
	OK(vmmc_node(text, &node));
	CHECK(node == self.node);
	OK(vmmc_host(self.node, again, 2));
	CHECK(again[0] == name[0] && again[1] == 0);
	RETURNS(vmmc_node("no such machine.", &node), VMMC_E_HOST_NOT_FOUND);
	RETURNS(vmmc_node(NULL, &node), VMMC_E_ARGUMENT);
	RETURNS(vmmc_node(name, NULL), VMMC_E_ARGUMENT);
	RETURNS(vmmc_host(0x020000000001, name, sizeof name), VMMC_E_HOST_NOT_FOUND);
	RETURNS(vmmc_host(self.node, NULL, 80), VMMC_E_ARGUMENT);
	RETURNS(vmmc_host(self.node, name, 0), VMMC_E_ARGUMENT);
	/* The other machine, which was not met yet, and by its name from then on. */
	OK(vmmc_host(them.self.node, again, sizeof again));
	OK(vmmc_node(again, &node));
	CHECK(node == them.self.node);
	OK(vmmc_hosts(nodes, 4, &count));
	CHECK(nodes[0] == self.node);
	CHECK(count == (is_here ? 1u : 2u));
	CHECK(is_here || nodes[1] == them.self.node);
	count = 0;
	OK(vmmc_hosts(NULL, 0, &count));
	CHECK(count >= 1);
	RETURNS(vmmc_hosts(NULL, 1, &count), VMMC_E_ARGUMENT);
	RETURNS(vmmc_hosts(nodes, 4, NULL), VMMC_E_ARGUMENT);
}

void test_exporting(void)
{
	static unsigned char memory[4096];
	vmmc_process_t anyone = {VMMC_ANY_NODE, VMMC_ANY_PROCESS, 0};
	RETURNS(vmmc_export(NULL, 1, 1, &anyone, 1, NULL, NULL), VMMC_E_ARGUMENT);
	RETURNS(vmmc_export(memory, 0, 1, &anyone, 1, NULL, NULL), VMMC_E_ARGUMENT);
	RETURNS(vmmc_export(memory, VMMC_BUFFER_MAX, 1, &anyone, 1, NULL, NULL), VMMC_E_ARGUMENT);
	RETURNS(vmmc_export(memory, 1, 1, NULL, 1, NULL, NULL), VMMC_E_ARGUMENT);
	OK(vmmc_export(memory + 1000, 1001, 1, &anyone, 1, NULL, NULL));
	RETURNS(vmmc_export(memory, 1, 1, &anyone, 1, NULL, NULL), VMMC_E_ID_IN_USE);
	RETURNS(vmmc_export(memory, 1001, 2, &anyone, 1, NULL, NULL), VMMC_E_OVERLAP);
	RETURNS(vmmc_export(memory + 2000, 1, 2, &anyone, 1, NULL, NULL), VMMC_E_OVERLAP);
	RETURNS(vmmc_export(memory, 4096, 2, &anyone, 1, NULL, NULL), VMMC_E_OVERLAP);
	OK(vmmc_export(memory, 1000, 2, NULL, 0, NULL, NULL));
	OK(vmmc_export(memory + 2001, 1, 0xffffffff, &anyone, 1, NULL, NULL));
	RETURNS(vmmc_permit(3, &anyone, 1), VMMC_E_NO_BUFFER);
	RETURNS(vmmc_permit(2, NULL, 1), VMMC_E_ARGUMENT);
	OK(vmmc_permit(2, &anyone, 1));
	RETURNS(vmmc_unexport(3), VMMC_E_NO_BUFFER);
	OK(vmmc_unexport(1));
	RETURNS(vmmc_unexport(1), VMMC_E_NO_BUFFER);
	OK(vmmc_export(memory + 1000, 1001, 1, &anyone, 1, NULL, NULL));
	OK(vmmc_unexport(2));
	OK(vmmc_unexport(1));
	OK(vmmc_unexport(0xffffffff));
}

void test_permission(void)
{
	vmmc_proxy_t proxy;
	struct peer other;
	long long node = (long long)self.node;
	start_peer(&other);
	init_peer(&other, -1);
	/* Nobody; another process of this machine; this process of another machine; this one; any of a kind. */
	OK(ask(&them, "export 1 100 1 %u", self.number));
	RETURNS(vmmc_import(&them.self, 1, LONG, &proxy, NULL), VMMC_E_PERMISSION);
	OK(ask(&them, "permit 1 %lld %u", node, other.self.number));
	RETURNS(vmmc_import(&them.self, 1, LONG, &proxy, NULL), VMMC_E_PERMISSION);
	RETURNS(ask(&other, "import 0 %lld %u 1", (long long)them.self.node, them.self.number), VMMC_OK);
	OK(ask(&them, "permit 1 %lld %u", node, self.number));
	OK(vmmc_import(&them.self, 1, LONG, &proxy, NULL));
	RETURNS(ask(&other, "import 1 %lld %u 1", (long long)them.self.node, them.self.number), VMMC_E_PERMISSION);
	OK(vmmc_unimport(proxy));
	OK(ask(&them, "permit 1 %lld %u", node, VMMC_ANY_PROCESS));
	OK(vmmc_import(&them.self, 1, LONG, &proxy, NULL));
	OK(vmmc_unimport(proxy));
	OK(ask(&them, "permit 1 0 %u", self.number));
	OK(vmmc_import(&them.self, 1, LONG, &proxy, NULL));
	OK(vmmc_unimport(proxy));
	OK(ask(&them, "permit 1 0 %u", other.self.number));
	RETURNS(vmmc_import(&them.self, 1, LONG, &proxy, NULL), VMMC_E_PERMISSION);
	volatile int64_t bytes = 5;
	OK(vmmc_import_start(&them.self, 1, &proxy, &bytes));
	UNTIL(bytes != 0);
	CHECK(bytes == VMMC_E_PERMISSION);
	RETURNS(vmmc_send("x", proxy, 1), VMMC_E_PERMISSION);
	OK(vmmc_unimport(proxy));
	/* What was imported before stays. */
	OK(ask(&other, "send 0 0 100 3 0"));
	OK(ask(&them, "filled 1 0 100 3"));
	CHECK(heard[0] == 1);
	stop_peer(&other);
}

void test_importing(void)
{
	vmmc_process_t bad = them.self;
	vmmc_proxy_t proxy = NULL, second;
	vmmc_import_info_t info;
	volatile int64_t bytes;
	uint64_t size = 0;
	OK(ask(&them, "export 1 1000 0 %u", VMMC_ANY_PROCESS));
	RETURNS(vmmc_import(NULL, 1, LONG, &proxy, &size), VMMC_E_ARGUMENT);
	RETURNS(vmmc_import(&them.self, 1, LONG, NULL, &size), VMMC_E_ARGUMENT);
	bad.number = VMMC_PROCESSES;
	RETURNS(vmmc_import(&bad, 1, LONG, &proxy, &size), VMMC_E_ARGUMENT);
	bad.number = 1, bad.node = (uint64_t)1 << 48;
	RETURNS(vmmc_import_start(&bad, 1, &proxy, &bytes), VMMC_E_ARGUMENT);
	RETURNS(vmmc_import_start(&them.self, 1, NULL, &bytes), VMMC_E_ARGUMENT);
	RETURNS(vmmc_import_start(&them.self, 1, &proxy, NULL), VMMC_E_ARGUMENT);
	RETURNS(vmmc_import_start(NULL, 1, &proxy, &bytes), VMMC_E_ARGUMENT);
	RETURNS(vmmc_import(&them.self, 2, 100, &proxy, &size), VMMC_E_TIMEOUT);
	/* A process that is not there. */
	bad = them.self, bad.number = VMMC_PROCESSES - 1;
	RETURNS(vmmc_import(&bad, 1, 100, &proxy, &size), VMMC_E_TIMEOUT);
	CHECK(proxy == NULL && size == 0);
	OK(vmmc_import(&them.self, 1, LONG, &proxy, &size));
	CHECK(size == 1000);
	OK(vmmc_import(&them.self, 1, LONG, &second, NULL));
	CHECK(proxy != second);
	memset(&info, 0xff, sizeof info);
	OK(vmmc_import_info(proxy + 7, &info));
	CHECK(info.from.node == them.self.node && info.from.number == them.self.number && info.id == 1);
	CHECK(info.generation != 0 && info.bytes == 1000 && info.state == VMMC_OK && info.zero == 0);
	RETURNS(vmmc_import_info(proxy, NULL), VMMC_E_ARGUMENT);
	OK(vmmc_unimport(proxy + 5));
	RETURNS(vmmc_unimport(proxy), VMMC_E_PROXY);
	RETURNS(vmmc_import_info(proxy, &info), VMMC_E_PROXY);
	RETURNS(vmmc_unimport(NULL), VMMC_E_PROXY);
	OK(vmmc_import_info(second, &info));
	OK(vmmc_unimport(second));
}

static void *export_later(void *ignored)
{
	(void)ignored;
	pause_ms(200);
	OK(ask(&them, "export 1 1000 0 %u", VMMC_ANY_PROCESS));
	return NULL;
}

void test_waiting_imports(void)
{
	pthread_t thread;
	vmmc_proxy_t proxy, never;
	vmmc_import_info_t info;
	volatile int64_t bytes = 7, nothing = 7;
	uint64_t size = 0;
	/* Blocks until the buffer is exported. */
	double start = seconds();
	pthread_create(&thread, NULL, export_later, NULL);
	OK(vmmc_import(&them.self, 1, VMMC_FOREVER, &proxy, &size));
	CHECK(seconds() - start > 0.19 && size == 1000);
	pthread_join(thread, NULL);
	OK(vmmc_unimport(proxy));
	/* Without blocking. */
	OK(vmmc_import_start(&them.self, 2, &proxy, &bytes));
	OK(vmmc_import_start(&them.self, 3, &never, &nothing));
	pause_ms(50);
	CHECK(bytes == 0);
	OK(vmmc_import_info(proxy, &info));
	CHECK(info.state == VMMC_E_PENDING && info.generation == 0 && info.bytes == 0);
	RETURNS(vmmc_send("x", proxy, 1), VMMC_E_PENDING);
	OK(ask(&them, "export 2 300 0 %u", VMMC_ANY_PROCESS));
	UNTIL(bytes != 0);
	CHECK(bytes == 300);
	OK(vmmc_send("x", proxy + 299, 1));
	OK(vmmc_unimport(proxy));
	/* One that is given up is not told of any more. */
	CHECK(nothing == 0);
	OK(vmmc_unimport(never));
	OK(ask(&them, "export 3 300 0 %u", VMMC_ANY_PROCESS));
	pause_ms(100);
	CHECK(nothing == 0);
	/* The exporter is started later. */
	struct peer late;
	vmmc_process_t process = self;
	process.number = 100;
	OK(vmmc_import_start(&process, 1, &proxy, &bytes));
	pause_ms(200);
	CHECK(bytes == 0);
	start_peer(&late);
	init_peer(&late, 100);
	OK(ask(&late, "export 1 70 0 %u", VMMC_ANY_PROCESS));
	UNTIL(bytes != 0);
	CHECK(bytes == 70);
	OK(vmmc_unimport(proxy));
	stop_peer(&late);
}

void test_addresses(void)
{
	static unsigned char memory[2000];
	vmmc_send_t request;
	OK(ask(&them, "export 1 1000 0 %u", VMMC_ANY_PROCESS));
	vmmc_proxy_t proxy = import(&them, 1, 1000);
	vmmc_proxy_t wrong[] = {NULL, (char *)memory, (char *)1, proxy - 1, (char *)~(uintptr_t)0,
	    (char *)((uintptr_t)proxy ^ ((uintptr_t)1 << 62)), (char *)((uintptr_t)proxy + ((uintptr_t)1 << 38))};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		RETURNS(vmmc_send(memory, wrong[i], 1), VMMC_E_PROXY);
		RETURNS(vmmc_send_notify(memory, wrong[i], 0), VMMC_E_PROXY);
		RETURNS(vmmc_send_start(memory, wrong[i], 1, 0, &request), VMMC_E_PROXY);
	}
	RETURNS(vmmc_send(memory, proxy, 1001), VMMC_E_BOUNDS);
	RETURNS(vmmc_send(memory, proxy + 1000, 1), VMMC_E_BOUNDS);
	RETURNS(vmmc_send(memory, proxy + 999, 2), VMMC_E_BOUNDS);
	RETURNS(vmmc_send(memory, proxy + 2000, 0), VMMC_E_BOUNDS);
	RETURNS(vmmc_send_notify(memory, proxy + 1, (size_t)-1), VMMC_E_BOUNDS);
	OK(vmmc_send(memory, proxy + 1000, 0));
	RETURNS(vmmc_send(NULL, proxy, 1), VMMC_E_ARGUMENT);
	OK(vmmc_send(NULL, proxy, 0));
	/* An address that stands for other memory is none of this process. */
	RETURNS(vmmc_send(proxy, proxy, 1), VMMC_E_ARGUMENT);
	RETURNS(vmmc_send_start(memory, proxy, 1, 0, NULL), VMMC_E_ARGUMENT);
	OK(vmmc_drain(LONG));
	OK(ask(&them, "zero 1 0 2000"));
	CHECK(heard[0] == 1);
	OK(vmmc_unimport(proxy));
	RETURNS(vmmc_send(memory, proxy, 1), VMMC_E_PROXY);
}
