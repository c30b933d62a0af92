/* Sends, notifications and redirection. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define BIG (2u << 20)

static unsigned char memory[BIG + 16], room[BIG + 16];

void test_sizes(void)
{
	static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 31, 32, 63, 64, 100, 1000, 1400, 1408, 1416, 1424, 1432, 1440,
	    1448, 1456, 1464, 1472, 1480, 1500, 2000, 4096, 8999, 9000, 16384, 65535, 65536, 65537, 200000, BIG};
	OK(ask(&them, "export 1 %u 0 %u", BIG + 16, VMMC_ANY_PROCESS));
	vmmc_proxy_t proxy = import(&them, 1, BIG + 16);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t offset = i % 9, from = i % 5;
		fill(memory + from, sizes[i], (unsigned)i);
		OK(vmmc_send(memory + from, proxy + offset, sizes[i]));
		/* The source may be used again. */
		memset(memory + from, 0, sizes[i]);
		OK(ask(&them, "filled 1 %zu %zu %zu", offset, sizes[i], i));
		CHECK(heard[0] == 1);
	}
	OK(vmmc_unimport(proxy));
}

void test_order(void)
{
	/* Data of all kinds of lengths, then a flag: who sees the flag sees the data. */
	static const size_t sizes[] = {8, 1000, 5000, 70000, 400000};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t bytes = sizes[i];
		uint32_t rounds = 40, round;
		vmmc_send_t request;
		OK(ask(&them, "export 1 %zu 0 %u", bytes + 4, VMMC_ANY_PROCESS));
		vmmc_proxy_t proxy = import(&them, 1, bytes + 4);
		tell(&them, "watch 1 %zu %u", bytes, rounds);
		for (round = 1; round <= rounds; round++) {
			OK(vmmc_drain(LONG));
			memset(memory, (int)round, bytes);
			if (round % 3 == 0) {
				/* In one send: its end is there last. */
				memcpy(memory + bytes, &round, 4);
				OK(vmmc_send(memory, proxy, bytes + 4));
			} else if (round % 2) {
				OK(vmmc_send(memory, proxy, bytes));
				OK(vmmc_send(&round, proxy + bytes, 4));
			} else {
				/* The flag must not wait in the application, nor pass what goes before it. */
				OK(vmmc_send_start(memory, proxy, bytes, 0, &request));
				OK(vmmc_send(&round, proxy + bytes, 4));
				OK(vmmc_send_wait(&request, LONG));
			}
		}
		OK(hear(&them));
		CHECK(heard[0] == 0);
		OK(vmmc_unimport(proxy));
		OK(ask(&them, "unexport 1"));
	}
}

void test_asynchronous(void)
{
	enum { MANY = 40 };
	vmmc_send_t requests[MANY], wrong[] = {1, 0x8000000000000000u, ~(uint64_t)0}, gone;
	size_t bytes = 50000;
	int pending = 0, code;
	OK(ask(&them, "export 1 %u 0 %u 2", BIG, VMMC_ANY_PROCESS));
	vmmc_proxy_t proxy = import(&them, 1, BIG);
	for (int i = 0; i < MANY; i++) {
		fill(memory + (size_t)i * bytes, bytes, (unsigned)i);
		OK(vmmc_send_start(memory + (size_t)i * bytes, proxy + (size_t)i * bytes, bytes, 1, &requests[i]));
	}
	gone = requests[0];
	for (int i = 0; i < MANY; i += 2)
		OK(vmmc_send_wait(&requests[i], LONG));
	for (int i = 1; i < MANY; i += 2) {
		while ((code = vmmc_send_test(&requests[i])) == VMMC_E_PENDING)
			pending++;
		OK(code);
	}
	for (int i = 0; i < MANY; i++) {
		CHECK(requests[i] == 0);
		OK(vmmc_send_test(&requests[i]));
		OK(vmmc_send_wait(&requests[i], 0));
		OK(ask(&them, "filled 1 %zu %zu %d", (size_t)i * bytes, bytes, i));
		CHECK(heard[0] == 1);
	}
	OK(ask(&them, "notified %d", MANY));
	CHECK(heard[0] == MANY && heard[2] == (long long)(bytes * (MANY - 1)) && heard[3] == (long long)bytes);
	CHECK(heard[5] == 1);
	/* Wrong ones, and one that was asked for already. */
	if (gone)
		RETURNS(vmmc_send_test(&gone), VMMC_E_REQUEST);
	for (int i = 0; i < 3; i++) {
		RETURNS(vmmc_send_test(&wrong[i]), VMMC_E_REQUEST);
		RETURNS(vmmc_send_wait(&wrong[i], LONG), VMMC_E_REQUEST);
	}
	RETURNS(vmmc_send_test(NULL), VMMC_E_REQUEST);
	RETURNS(vmmc_send_wait(NULL, 0), VMMC_E_REQUEST);
	/* A short one is over when it was started; of an import that is given up, the others fail. */
	OK(vmmc_drain(LONG));
	OK(vmmc_send_start(memory, proxy, 8, 0, &requests[0]));
	CHECK(requests[0] == 0);
	int failed = 0;
	/* On a busy machine all may have arrived before. */
	for (int round = 0; round < 20 && failed == 0; round++) {
		if (round)
			proxy = import(&them, 1, BIG);
		for (int i = 0; i < 8; i++)
			OK(vmmc_send_start(memory, proxy, BIG, 0, &requests[i]));
		OK(vmmc_unimport(proxy));
		for (int i = 0; i < 8; i++) {
			code = vmmc_send_wait(&requests[i], LONG);
			failed += code == VMMC_E_PROXY;
			CHECK(code == VMMC_OK || code == VMMC_E_PROXY);
		}
	}
	CHECK(failed > 0);
	OK(vmmc_drain(LONG));
}

static void count_bytes(const vmmc_notification_t *notification, void *context)
{
	__atomic_add_fetch((uint64_t *)context, notification->bytes, __ATOMIC_RELEASE);
}

void test_receiving(void)
{
	/* The other way: this process is the one that is written to. */
	uint64_t told = 0;
	memset(room, 0, sizeof room);
	OK(vmmc_export(room, BIG, 9, &them.self, 1, count_bytes, &told));
	OK(ask(&them, "import 2 %lld %u 9", (long long)self.node, self.number));
	CHECK(heard[0] == BIG);
	for (unsigned i = 1; i <= 6; i++) {
		size_t bytes = (size_t)1 << (3 * i);
		OK(ask(&them, "send 2 %u %zu %u 1", i, bytes, i));
		CHECK(gets_filled(room + i, bytes, i));
		UNTIL_BY(GET(told) >= bytes, vmmc_poll());
		CHECK(told == bytes);
		told = 0;
	}
	RETURNS(ask(&them, "send 2 %u 2 1 0", BIG - 1), VMMC_E_BOUNDS);
	/* Without a call: there is progress all the same. */
	tell(&them, "send 2 0 300000 77 0");
	volatile unsigned char *there = room;
	UNTIL_BY(is_filled((unsigned char *)there, 300000, 77), );
	OK(hear(&them));
	OK(vmmc_unexport(9));
	RETURNS(ask(&them, "send 2 0 100000 1 0"), VMMC_E_STALE);
}

void test_notifications(void)
{
	OK(ask(&them, "export 1 1000 0 %u 2", VMMC_ANY_PROCESS));
	OK(ask(&them, "export 2 1000 0 %u 0", VMMC_ANY_PROCESS));
	vmmc_proxy_t proxy = import(&them, 1, 1000), silent = import(&them, 2, 1000);
	OK(vmmc_send_notify("x", proxy + 5, 1));
	OK(ask(&them, "notified 1"));
	CHECK(heard[0] == 1 && heard[1] == 1 && heard[2] == 5 && heard[3] == 1);
	CHECK(heard[4] == (long long)self.number);
	/* No bytes; no handler; no notification. */
	OK(vmmc_send_notify(NULL, proxy + 1000, 0));
	OK(ask(&them, "notified 1"));
	CHECK(heard[2] == 1000 && heard[3] == 0);
	OK(vmmc_send_notify("x", silent, 1));
	OK(vmmc_send("x", proxy, 1));
	OK(vmmc_send_notify("xyz", proxy + 7, 3));
	OK(ask(&them, "notified 1"));
	CHECK(heard[0] == 1 && heard[2] == 7 && heard[3] == 3);
	/* Each is told of once, and in order. */
	for (unsigned i = 0; i < 1000; i++)
		OK(vmmc_send_notify("x", proxy + i, 1));
	OK(ask(&them, "notified 1000"));
	CHECK(heard[0] == 1000 && heard[2] == 999 && heard[5] == 1);
	OK(vmmc_unimport(proxy));
	OK(vmmc_unimport(silent));
}

static struct {
	int handled, running, nested, code_of_unblock, code_of_finalize, nested_unblock, slow, awaited;
} seen;

static void look_around(const vmmc_notification_t *notification, void *context)
{
	(void)context;
	CHECK(notification->id == 9 && notification->from.number == them.self.number);
	if (__atomic_add_fetch(&seen.running, 1, __ATOMIC_SEQ_CST) != 1)
		seen.nested++;
	/* Blocked while it runs; blocking and unblocking in it go by pairs. Another thread's block is not to be undone. */
	if (!seen.slow)
		seen.code_of_unblock = vmmc_unblock_notifications();
	CHECK(vmmc_block_notifications() == VMMC_OK);
	seen.nested_unblock = vmmc_unblock_notifications();
	seen.code_of_finalize = vmmc_finalize();
	if (seen.slow) {
		UNTIL(GET(seen.awaited));
		pause_ms(200);
	}
	vmmc_poll();
	__atomic_sub_fetch(&seen.running, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&seen.handled, 1, __ATOMIC_SEQ_CST);
}

static int handled(int wanted)
{
	UNTIL(GET(seen.handled) >= wanted);
	return GET(seen.handled);
}

void test_blocking(void)
{
	memset(&seen, 0, sizeof seen);
	OK(vmmc_export(room, 1000, 9, &them.self, 1, look_around, NULL));
	OK(ask(&them, "import 2 %lld %u 9", (long long)self.node, self.number));
	OK(ask(&them, "notify 2 10"));
	CHECK(handled(10) == 10);
	RETURNS(seen.code_of_unblock, VMMC_E_IN_HANDLER);
	RETURNS(seen.code_of_finalize, VMMC_E_IN_HANDLER);
	CHECK(seen.nested_unblock == 0 && seen.nested == 0);
	/* Not blocked: no effect. */
	CHECK(vmmc_unblock_notifications() == 0);
	/* Twice blocked: they wait until it was ended twice. */
	OK(vmmc_block_notifications());
	OK(vmmc_block_notifications());
	OK(ask(&them, "notify 2 20"));
	pause_ms(100);
	for (int i = 0; i < 100; i++)
		CHECK(vmmc_poll() == 0);
	CHECK(seen.handled == 10);
	CHECK(vmmc_unblock_notifications() == 0);
	pause_ms(50);
	CHECK(seen.handled == 10);
	CHECK(vmmc_unblock_notifications() == 1);
	CHECK(handled(30) == 30 && seen.nested == 0);
	/* Blocking waits for the one that runs. */
	seen.slow = 1;
	OK(ask(&them, "notify 2 1"));
	UNTIL_BY(GET(seen.running), );
	SET(seen.awaited, 1);
	OK(vmmc_block_notifications());
	CHECK(seen.running == 0 && seen.handled == 31);
	SET(seen.awaited, 0);
	CHECK(vmmc_unblock_notifications() == 1);
	/* So does unexporting; nothing is handled after it. */
	OK(ask(&them, "notify 2 3"));
	UNTIL_BY(GET(seen.running), );
	SET(seen.awaited, 1);
	OK(vmmc_unexport(9));
	CHECK(seen.running == 0);
	int before = seen.handled;
	pause_ms(100);
	CHECK(seen.handled == before);
	/* vmmc_poll runs handlers, too; each once, whoever does. */
	memset(&seen, 0, sizeof seen);
	OK(vmmc_export(room, 1000, 9, &them.self, 1, look_around, NULL));
	OK(ask(&them, "unimport 2"));
	OK(ask(&them, "import 2 %lld %u 9", (long long)self.node, self.number));
	tell(&them, "notify 2 500");
	UNTIL_BY(GET(seen.handled) >= 500, CHECK(vmmc_poll() >= 0));
	OK(hear(&them));
	CHECK(seen.handled == 500 && seen.nested == 0);
	OK(vmmc_unexport(9));
}

void test_computing(void)
{
	/* A process that makes no calls is imported from, written to, and notified. */
	uint64_t told = 0;
	OK(vmmc_export(room, 1000, 9, &them.self, 1, count_bytes, &told));
	tell(&them, "import 2 %lld %u 9", (long long)self.node, self.number);
	OK(hear(&them));
	tell(&them, "send 2 0 700 5 1");
	UNTIL_BY(GET(told) != 0, );
	CHECK(told == 700 && is_filled(room, 700, 5));
	OK(hear(&them));
	OK(vmmc_unexport(9));
}

void test_redirection(void)
{
	static unsigned char late[2000], later[100];
	uint64_t copied = 7;
	memset(room, 0, sizeof room);
	OK(vmmc_export(room, 10000, 9, &them.self, 1, NULL, NULL));
	OK(ask(&them, "import 2 %lld %u 9", (long long)self.node, self.number));
	/* Half of it has come before. */
	OK(ask(&them, "send 2 500 1000 3 0"));
	CHECK(gets_filled(room + 500, 1000, 3));
	OK(vmmc_redirect(9, 1000, late, 2000, &copied));
	CHECK(copied == 500 && memcmp(late, room + 1000, 500) == 0 && late[500] == 0);
	/* Over the beginning and the end of the redirected part. */
	OK(ask(&them, "send 2 900 2300 4 0"));
	CHECK(gets_filled(room + 900, 100, 4));
	UNTIL_BY(((volatile unsigned char *)late)[1999] != 0, vmmc_poll());
	OK(ask(&them, "send 2 9999 1 1 0"));
	CHECK(gets_filled(room + 9999, 1, 1));
	fill(memory, 2300, 4);
	CHECK(memcmp(room + 900, memory, 100) == 0 && memcmp(late, memory + 100, 2000) == 0);
	CHECK(memcmp(room + 3000, memory + 2100, 200) == 0);
	/* What came before stays in the buffer: only the new goes elsewhere. */
	CHECK(room[1499] != 0 && room[1500] == 0 && room[2999] == 0);
	/* Errors. */
	RETURNS(vmmc_redirect(8, 0, later, 100, NULL), VMMC_E_NO_BUFFER);
	RETURNS(vmmc_redirect(9, 0, NULL, 100, NULL), VMMC_E_ARGUMENT);
	RETURNS(vmmc_redirect(9, 0, later, 0, NULL), VMMC_E_ARGUMENT);
	RETURNS(vmmc_redirect(9, 9901, later, 100, NULL), VMMC_E_BOUNDS);
	RETURNS(vmmc_redirect(9, ~(uint64_t)0, later, 100, NULL), VMMC_E_BOUNDS);
	RETURNS(vmmc_redirect(9, 2999, later, 100, NULL), VMMC_E_REDIRECTED);
	RETURNS(vmmc_redirect(9, 901, later, 100, NULL), VMMC_E_REDIRECTED);
	RETURNS(vmmc_redirect(9, 5000, late + 1999, 10, NULL), VMMC_E_OVERLAP);
	RETURNS(vmmc_redirect(9, 5000, room + 9999, 10, NULL), VMMC_E_OVERLAP);
	RETURNS(vmmc_export(late, 10, 8, &them.self, 1, NULL, NULL), VMMC_E_OVERLAP);
	OK(vmmc_redirect(9, 900, later, 100, &copied));
	CHECK(copied == 100 && memcmp(later, memory, 100) == 0);
	/* And back. */
	RETURNS(vmmc_restore(8, 1000), VMMC_E_NO_BUFFER);
	RETURNS(vmmc_restore(9, 1001), VMMC_E_NOT_REDIRECTED);
	OK(vmmc_restore(9, 1000));
	RETURNS(vmmc_restore(9, 1000), VMMC_E_NOT_REDIRECTED);
	OK(ask(&them, "send 2 1000 2000 6 0"));
	CHECK(gets_filled(room + 1000, 2000, 6));
	CHECK(memcmp(late, memory + 100, 2000) == 0);
	/* What was taken is not copied again. */
	OK(vmmc_taken(9, 1000, 1500));
	OK(vmmc_redirect(9, 1000, late, 2000, &copied));
	CHECK(copied == 500 && memcmp(late + 1500, room + 2500, 500) == 0 && late[0] == memory[100]);
	RETURNS(vmmc_taken(8, 0, 1), VMMC_E_NO_BUFFER);
	RETURNS(vmmc_taken(9, 9999, 2), VMMC_E_BOUNDS);
	/* Unexporting ends all of it. */
	OK(vmmc_unexport(9));
	OK(vmmc_export(late, 10, 8, &them.self, 1, NULL, NULL));
	OK(vmmc_unexport(8));
}

void test_late_redirection(void)
{
	/* Redirected while it arrives: each byte is in one of the two places, and none is lost. */
	static unsigned char late[BIG];
	for (unsigned round = 0; round < 12; round++) {
		uint64_t copied, told = 0;
		memset(room, 0, BIG), memset(late, 0, BIG);
		OK(vmmc_export(room, BIG, 9, &them.self, 1, count_bytes, &told));
		OK(ask(&them, "import 2 %lld %u 9", (long long)self.node, self.number));
		tell(&them, "send 2 0 %u %u 1", BIG, round + 1);
		UNTIL_BY(((volatile unsigned char *)room)[round * 100] != 0, vmmc_poll());
		for (unsigned i = 0; i < round * 20; i++)
			vmmc_poll();
		OK(vmmc_redirect(9, 0, late, BIG, &copied));
		UNTIL_BY(GET(told) != 0, vmmc_poll());
		CHECK(told == BIG && is_filled(late, BIG, round + 1));
		OK(hear(&them));
		OK(vmmc_unexport(9));
		OK(ask(&them, "unimport 2"));
	}
}

struct sending {
	vmmc_proxy_t to;
	unsigned number;
	int code;
};

static void *send_much(void *context)
{
	struct sending *sending = context;
	unsigned char *from = malloc(20000);
	for (unsigned i = 0; i < 60 && sending->code == 0; i++) {
		size_t bytes = i % 3 == 0 ? 20000 : 1 + i * 7;
		vmmc_send_t request;
		fill(from, bytes, sending->number);
		if (i % 2) {
			sending->code = vmmc_send(from, sending->to, bytes);
		} else {
			sending->code = vmmc_send_start(from, sending->to, bytes, 0, &request);
			if (sending->code == 0)
				sending->code = vmmc_send_wait(&request, LONG);
		}
	}
	fill(from, 20000, sending->number);
	if (sending->code == 0)
		sending->code = vmmc_send_notify(from, sending->to, 20000);
	free(from);
	return NULL;
}

void test_threads(void)
{
	enum { THREADS = 6 };
	struct sending sendings[THREADS];
	pthread_t threads[THREADS];
	OK(ask(&them, "export 1 %u 0 %u 1", THREADS * 20000, VMMC_ANY_PROCESS));
	vmmc_proxy_t proxy = import(&them, 1, THREADS * 20000);
	for (unsigned i = 0; i < THREADS; i++) {
		sendings[i] = (struct sending){proxy + i * 20000, i + 1, 0};
		pthread_create(&threads[i], NULL, send_much, &sendings[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		OK(sendings[i].code);
	}
	OK(ask(&them, "notified %d", THREADS));
	CHECK(heard[0] == THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		OK(ask(&them, "filled 1 %u 20000 %u", i * 20000, i + 1));
		CHECK(heard[0] == 1);
	}
	OK(vmmc_unimport(proxy));
}
