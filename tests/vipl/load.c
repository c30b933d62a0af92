/* Many threads, many VIs, and processes that end in the middle of it. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 200 };

struct worker {
	int number;
	VIP_VI_HANDLE client, server;
	int good;
	pthread_t thread;
};

/* Sends on one VI and waits on the other, as other threads do on theirs. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	int n = worker->number;
	VIP_DESCRIPTOR *got;
	for (int round = 0; round < ROUNDS; round++) {
		size_t size = round % 10 == 9 ? 60000 : 20;
		VIP_DESCRIPTOR *in = descriptor(&b, n, (size_t)n * 65536, 65536);
		VIP_DESCRIPTOR *out = descriptor(&a, n, (size_t)n * 65536, size);
		fill(data(&a, (size_t)n * 65536), size, (unsigned)(n + round));
		if (VipPostRecv(worker->server, in, b.handle) || VipPostSend(worker->client, out, a.handle))
			return NULL;
		if (VipRecvWait(worker->server, LONG, &got) || got != in || in->CS.Length != size)
			return NULL;
		if (VipSendWait(worker->client, LONG, &got) || got != out)
			return NULL;
		if (!is_filled(data(&b, (size_t)n * 65536), size, (unsigned)(n + round)))
			return NULL;
	}
	worker->good = 1;
	return NULL;
}

void test_threads(void)
{
	struct worker workers[THREADS];
	for (int n = 0; n < THREADS; n++) {
		workers[n] = (struct worker){.number = n};
		workers[n].client = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
		workers[n].server = new_vi(&b, n % 2 ? VIP_SERVICE_RELIABLE_DELIVERY : VIP_SERVICE_RELIABLE_DELIVERY);
		join(workers[n].client, workers[n].server);
	}
	for (int n = 0; n < THREADS; n++)
		pthread_create(&workers[n].thread, NULL, work, &workers[n]);
	for (int n = 0; n < THREADS; n++) {
		pthread_join(workers[n].thread, NULL);
		CHECK(workers[n].good);
		OK(VipDisconnect(workers[n].client));
		told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
		OK(VipDisconnect(workers[n].server));
		OK(VipDestroyVi(workers[n].client));
		OK(VipDestroyVi(workers[n].server));
	}
}

/* Many VIs between two nodes, each with its own order. */
void test_many(void)
{
	enum { VIS = 64 };
	static VIP_VI_HANDLE from[VIS], to[VIS];
	for (int n = 0; n < VIS; n++) {
		VIP_RELIABILITY_LEVEL level = (VIP_RELIABILITY_LEVEL)(1 << n % 3);
		from[n] = new_vi(&a, level);
		to[n] = new_vi(&b, level);
		join(from[n], to[n]);
	}
	for (int round = 0; round < 5; round++) {
		for (int n = 0; n < VIS; n++) {
			b.vi = to[n];
			post_recv(&b, descriptor(&b, n, (size_t)n * 4096, 4096));
		}
		for (int n = 0; n < VIS; n++) {
			a.vi = from[n];
			fill(data(&a, (size_t)n * 4096), 4000, (unsigned)(n + round));
			post_send(&a, descriptor(&a, n, (size_t)n * 4096, 4000));
		}
		for (int n = VIS - 1; n >= 0; n--) {
			a.vi = from[n];
			b.vi = to[n];
			received(&b, (void *)(b.memory + (size_t)n * STRIDE), RECEIVED, 4000);
			CHECK(is_filled(data(&b, (size_t)n * 4096), 4000, (unsigned)(n + round)));
			sent(&a, (void *)(a.memory + (size_t)n * STRIDE), DONE);
		}
	}
	for (int n = 0; n < VIS; n++) {
		a.vi = from[n];
		b.vi = to[n];
		part_both();
	}
}

int stay(const char *point)
{
	char from[ADDRESS_BYTES] __attribute__((aligned(8)));
	VIP_CONN_HANDLE connection;
	VIP_VI_ATTRIBUTES remote;
	open_side(&b, NULL);
	b.vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	for (int n = 0; n < 4; n++)
		post_recv(&b, descriptor(&b, n, (size_t)n * 65536, 65536));
	printf("waiting\n");
	fflush(stdout);
	MUST(VipConnectWait(b.nic, address(&b, point), LONG, (VIP_NET_ADDRESS *)from, &remote, &connection));
	MUST(VipConnectAccept(connection, b.vi));
	printf("connected\n");
	fflush(stdout);
	for (;;)
		pause();
}

struct child {
	pid_t id;
	FILE *says;
};

static struct child start(const char *point)
{
	struct child child;
	int ends[2];
	if (pipe(ends))
		exit(1);
	child.id = fork();
	if (child.id == 0) {
		dup2(ends[1], 1);
		close(ends[0]);
		close(ends[1]);
		execl(program, program, "stay", point, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	child.says = fdopen(ends[0], "r");
	return child;
}

static void says(struct child *child, const char *wanted)
{
	char line[100] = "";
	CHECK(fgets(line, sizeof line, child->says) != NULL);
	CHECK(strncmp(line, wanted, strlen(wanted)) == 0);
}

static void kill_child(struct child *child)
{
	kill(child->id, SIGKILL);
	waitpid(child->id, NULL, 0);
	fclose(child->says);
}

static void connect_to(const char *point)
{
	VIP_RETURN code;
	double begun = seconds();
	a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	do
		code = VipConnectRequest(a.vi, address(&a, "x"), address(&a, point), LONG, NULL);
	while (code == VIP_NO_MATCH && seconds() - begun < 20);
	MUST(code);
}

/* A process that is gone without a word, while this one waits for it. */
void test_killed_peer(void)
{
	for (int sending = 0; sending < 2; sending++) {
		struct child child = start("killed");
		says(&child, "waiting");
		connect_to("killed");
		says(&child, "connected");
		VIP_DESCRIPTOR *in = descriptor(&a, 0, 0, 100), *out = descriptor(&a, 1, 0, 100), *got;
		post_recv(&a, in);
		post_send(&a, out);
		sent(&a, out, DONE);
		kill_child(&child);
		if (sending)
			MUST(VipPostSend(a.vi, descriptor(&a, 2, 0, TRANSFER), a.handle));
		/* EMP_TIMEOUT after it was missed. */
		RETURNS(VipRecvWait(a.vi, LONG, &got), VIP_DESCRIPTOR_ERROR);
		CHECK(got == in && in->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR);
		told(&a, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
		CHECK(state_of(a.vi) == VIP_STATE_ERROR);
		OK(VipDisconnect(a.vi));
		drain(a.vi);
		OK(VipDestroyVi(a.vi));
		expect_errors(&a);
	}
}

/* The process that takes requests for the machine ends: another one takes its place. */
void test_stopped_door(void)
{
	/* It is this one's, which was there first; so another process takes over when both NICs are closed. */
	struct child child = start("taken over");
	says(&child, "waiting");
	close_side(&a);
	close_side(&b);
	pause_ms(500);
	open_side(&a, NULL);
	open_side(&b, NULL);
	connect_to("taken over");
	says(&child, "connected");
	OK(VipDisconnect(a.vi));
	OK(VipDestroyVi(a.vi));
	kill_child(&child);
}

/* A child has no NIC, and its parent still has. */
void test_fork(void)
{
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	pid_t child = fork();
	if (child == 0) {
		VIP_NIC_HANDLE nic;
		VIP_DESCRIPTOR *got;
		int refused = VipRecvDone(a.vi, &got) == VIP_ERROR_RESOURCE && VipOpenNic(NULL, &nic) == VIP_ERROR_RESOURCE;
		_exit(refused ? 0 : 1);
	}
	int status = 1;
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, 100), *out = descriptor(&a, 0, 0, 100);
	post_recv(&b, in);
	post_send(&a, out);
	received(&b, in, RECEIVED, 100);
	sent(&a, out, DONE);
	part_both();
}
