/* Exporters that go and come back, and other ends. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static unsigned char memory[100000];

/* What a send fails with in the end: the first ones may be over before it is known. */
static int fails(vmmc_proxy_t proxy)
{
	int code = VMMC_OK;
	for (double end = seconds() + LONG / 1000; code == VMMC_OK && seconds() < end;) {
		code = vmmc_send(memory, proxy, 8);
		vmmc_poll();
		usleep(100);
	}
	return code;
}

void test_generations(void)
{
	vmmc_import_info_t first, second, void_one;
	OK(ask(&them, "export 1 1000 0 %u", VMMC_ANY_PROCESS));
	vmmc_proxy_t proxy = import(&them, 1, 1000);
	OK(vmmc_import_info(proxy, &first));
	OK(ask(&them, "unexport 1"));
	OK(ask(&them, "export 1 1000 0 %u", VMMC_ANY_PROCESS));
	RETURNS(fails(proxy), VMMC_E_STALE);
	RETURNS(vmmc_send_notify(memory, proxy, 0), VMMC_E_STALE);
	OK(vmmc_import_info(proxy, &void_one));
	CHECK(void_one.state == VMMC_E_STALE && void_one.generation == 0 && void_one.bytes == 0);
	/* Nothing of that is in the later one. */
	OK(vmmc_drain(LONG));
	OK(ask(&them, "zero 1 0 1000"));
	CHECK(heard[0] == 1);
	OK(vmmc_unimport(proxy));
	proxy = import(&them, 1, 1000);
	OK(vmmc_import_info(proxy, &second));
	CHECK(second.generation != first.generation);
	fill(memory, 1000, 8);
	OK(vmmc_send(memory, proxy, 1000));
	OK(ask(&them, "filled 1 0 1000 8"));
	CHECK(heard[0] == 1);
	/* A long one that waits for its end. */
	OK(ask(&them, "unexport 1"));
	OK(ask(&them, "export 2 100000 0 %u", VMMC_ANY_PROCESS));
	vmmc_proxy_t longer = import(&them, 2, 100000);
	OK(ask(&them, "unexport 2"));
	RETURNS(vmmc_send(memory, longer, sizeof memory), VMMC_E_STALE);
	vmmc_send_t request;
	RETURNS(vmmc_send_start(memory, longer, sizeof memory, 0, &request), VMMC_E_STALE);
	OK(vmmc_unimport(longer));
	OK(vmmc_unimport(proxy));
}

void test_closed(void)
{
	OK(ask(&them, "export 1 1000 0 %u", VMMC_ANY_PROCESS));
	vmmc_proxy_t proxy = import(&them, 1, 1000);
	OK(vmmc_send(memory, proxy, 10));
	OK(ask(&them, "finalize"));
	RETURNS(fails(proxy), VMMC_E_CLOSED);
	OK(vmmc_unimport(proxy));
	init_peer(&them, (int)them.self.number);
	OK(ask(&them, "export 1 1000 0 %u", VMMC_ANY_PROCESS));
	proxy = import(&them, 1, 1000);
	fill(memory, 1000, 9);
	OK(vmmc_send(memory, proxy, 1000));
	OK(ask(&them, "filled 1 0 1000 9"));
	CHECK(heard[0] == 1);
	OK(vmmc_unimport(proxy));
}

void test_restart(void)
{
	vmmc_proxy_t again;
	volatile int64_t bytes;
	OK(ask(&them, "export 1 1000 0 %u", VMMC_ANY_PROCESS));
	vmmc_proxy_t proxy = import(&them, 1, 1000);
	OK(vmmc_send(memory, proxy, 10));
	OK(vmmc_drain(LONG));
	/* It dies, is started again under its number, and exports under the same id. */
	OK(ask(&them, "again"));
	init_peer(&them, (int)them.self.number);
	OK(ask(&them, "export 1 2000 0 %u", VMMC_ANY_PROCESS));
	RETURNS(fails(proxy), VMMC_E_RESTARTED);
	OK(ask(&them, "zero 1 0 2000"));
	CHECK(heard[0] == 1);
	RETURNS(vmmc_send(memory, proxy, 10), VMMC_E_RESTARTED);
	OK(vmmc_unimport(proxy));
	proxy = import(&them, 1, 2000);
	fill(memory, 2000, 4);
	OK(vmmc_send(memory, proxy, 2000));
	OK(ask(&them, "filled 1 0 2000 4"));
	CHECK(heard[0] == 1);
	/* One that waits for a buffer goes on waiting for it over a restart. */
	OK(vmmc_import_start(&them.self, 2, &again, &bytes));
	pause_ms(50);
	OK(ask(&them, "again"));
	init_peer(&them, (int)them.self.number);
	OK(ask(&them, "export 2 3000 0 %u", VMMC_ANY_PROCESS));
	UNTIL(bytes != 0);
	CHECK(bytes == 3000);
	OK(vmmc_send(memory, again, 2000));
	OK(ask(&them, "filled 2 0 2000 4"));
	CHECK(heard[0] == 1);
	OK(vmmc_unimport(again));
	OK(vmmc_unimport(proxy));
}

void test_silence(void)
{
	const char *timeout = getenv("EMP_TIMEOUT");
	if (!timeout || atoi(timeout) > 5000)
		return;
	OK(ask(&them, "export 1 100000 0 %u", VMMC_ANY_PROCESS));
	OK(ask(&them, "export 2 100000 0 %u", VMMC_ANY_PROCESS));
	vmmc_proxy_t proxy = import(&them, 1, 100000), other = import(&them, 2, 100000);
	vmmc_send_t request;
	/* It stands still: nothing is lost, and calls say that nothing is known. */
	stop_process(them.pid);
	fill(memory, 100000, 2);
	OK(vmmc_send_start(memory, proxy, 100000, 0, &request));
	RETURNS(vmmc_send_test(&request), VMMC_E_PENDING);
	RETURNS(vmmc_send_wait(&request, 50), VMMC_E_TIMEOUT);
	RETURNS(vmmc_drain(10), VMMC_E_TIMEOUT);
	kill(them.pid, SIGCONT);
	OK(vmmc_send_wait(&request, LONG));
	OK(vmmc_drain(LONG));
	OK(ask(&them, "filled 1 0 100000 2"));
	CHECK(heard[0] == 1);
	/* For too long. */
	stop_process(them.pid);
	OK(vmmc_send_start(memory, proxy, 100000, 0, &request));
	RETURNS(vmmc_send_wait(&request, LONG), VMMC_E_UNREACHABLE);
	RETURNS(vmmc_send(memory, proxy, 1), VMMC_E_UNREACHABLE);
	/* With the process go all of its buffers. */
	RETURNS(vmmc_send(memory, other, 1), VMMC_E_UNREACHABLE);
	kill(them.pid, SIGCONT);
	OK(vmmc_unimport(proxy));
	OK(vmmc_unimport(other));
	proxy = import(&them, 1, 100000);
	fill(memory, 1000, 3);
	OK(vmmc_send(memory, proxy, 1000));
	OK(ask(&them, "filled 1 0 1000 3"));
	CHECK(heard[0] == 1);
	OK(vmmc_unimport(proxy));
}

void test_killed(void)
{
	struct peer other;
	int status;
	start_peer(&other);
	init_peer(&other, -1);
	OK(ask(&other, "export 1 100000 0 %u", VMMC_ANY_PROCESS));
	vmmc_proxy_t proxy = import(&other, 1, 100000);
	vmmc_send_t request;
	OK(vmmc_send(memory, proxy, 100000));
	kill(other.pid, SIGKILL);
	waitpid(other.pid, &status, 0);
	int code = vmmc_send_start(memory, proxy, 100000, 0, &request);
	if (code == VMMC_OK)
		code = vmmc_send_wait(&request, LONG);
	CHECK(code == VMMC_E_UNREACHABLE || code == VMMC_E_CLOSED);
	CHECK(fails(proxy) == code);
	OK(vmmc_unimport(proxy));
	fclose(other.from), fclose(other.to);
	/* Others take no harm. */
	OK(ask(&them, "export 1 1000 0 %u", VMMC_ANY_PROCESS));
	proxy = import(&them, 1, 1000);
	fill(memory, 1000, 5);
	OK(vmmc_send(memory, proxy, 1000));
	OK(ask(&them, "filled 1 0 1000 5"));
	CHECK(heard[0] == 1);
	OK(vmmc_unimport(proxy));
}

static void count(const vmmc_notification_t *notification, void *context)
{
	CHECK(notification->from.number == self.number && notification->from.node == self.node);
	__atomic_add_fetch((int *)context, 1, __ATOMIC_RELEASE);
}

void test_itself(void)
{
	static unsigned char room[100000];
	int told = 0;
	OK(vmmc_export(room, sizeof room, 5, &self, 1, count, &told));
	struct peer own = {.self = self};
	vmmc_proxy_t proxy = import(&own, 5, sizeof room);
	fill(memory, sizeof memory, 6);
	OK(vmmc_send(memory, proxy, 100));
	CHECK(gets_filled(room, 100, 6));
	OK(vmmc_send_notify(memory, proxy, sizeof memory));
	UNTIL_BY(GET(told) != 0, vmmc_poll());
	CHECK(told == 1 && is_filled(room, sizeof room, 6));
	OK(vmmc_unexport(5));
	RETURNS(fails(proxy), VMMC_E_STALE);
	OK(vmmc_unimport(proxy));
}

void test_many(void)
{
	enum { MANY = 4096 };
	static vmmc_proxy_t proxies[MANY + 1];
	static volatile int64_t bytes[MANY + 1];
	vmmc_process_t anyone = {VMMC_ANY_NODE, VMMC_ANY_PROCESS, 0};
	/* As many imports as there can be, of buffers that are not there. */
	for (int i = 0; i < MANY; i++)
		OK(vmmc_import_start(&self, (uint32_t)i, &proxies[i], &bytes[i]));
	RETURNS(vmmc_import_start(&self, MANY, &proxies[MANY], &bytes[MANY]), VMMC_E_NO_RESOURCES);
	for (int i = 0; i < MANY; i++)
		OK(vmmc_unimport(proxies[i]));
	/* Buffers come and go. */
	for (int i = 0; i < 2000; i++)
		OK(vmmc_export(memory + i * 16, 16, (uint32_t)i, &anyone, 1, NULL, NULL));
	for (int i = 0; i < 2000; i++) {
		OK(vmmc_import(&self, (uint32_t)i, LONG, &proxies[i], NULL));
		OK(vmmc_send("0123456789abcdef", proxies[i], 16));
	}
	OK(vmmc_drain(LONG));
	for (int i = 0; i < 2000; i++) {
		CHECK(memcmp(memory + i * 16, "0123456789abcdef", 16) == 0);
		OK(vmmc_unimport(proxies[i]));
		OK(vmmc_unexport((uint32_t)i));
	}
}

static int code_of_waiting, about_to_wait;

static void *wait_for_ever(void *ignored)
{
	vmmc_proxy_t proxy;
	(void)ignored;
	SET(about_to_wait, 1);
	code_of_waiting = vmmc_import(&them.self, 999, VMMC_FOREVER, &proxy, NULL);
	return NULL;
}

void test_finalized(void)
{
	pthread_t thread;
	SET(about_to_wait, 0);
	pthread_create(&thread, NULL, wait_for_ever, NULL);
	UNTIL(GET(about_to_wait));
	pause_ms(100);
	OK(vmmc_finalize());
	pthread_join(thread, NULL);
	RETURNS(code_of_waiting, VMMC_E_FINALIZED);
	MUST(vmmc_init(VMMC_ANY_PROCESS));
	MUST(vmmc_self(&self));
}

void test_fork(void)
{
	int status = 0;
	vmmc_process_t process;
	fflush(NULL);
	int child = fork();
	if (child == 0) {
		/* What it has is the parent's. */
		int good = vmmc_self(&process) == VMMC_E_BROKEN && vmmc_poll() == VMMC_E_BROKEN &&
		    vmmc_finalize() == VMMC_E_BROKEN && vmmc_page_size() == 0;
		_exit(good ? 0 : 1);
	}
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		provoked("return", VMMC_E_BROKEN);
	OK(vmmc_self(&process));
}
