/* The other process: it does what lines say, and answers each with a line of numbers, first a code. */
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define SLOTS 8
/* The longest buffer of any test. */
#define ROOM (4u << 20)

static unsigned char *buffers[SLOTS];
static vmmc_proxy_t proxies[SLOTS];
static int notified;
static vmmc_notification_t last;
static int in_order = 1;

static void note(const vmmc_notification_t *notification, void *context)
{
	/* Senders of these tests count in offsets, if they send several. */
	if (context && notification->offset && notification->offset < last.offset)
		in_order = 0;
	last = *notification;
	__atomic_add_fetch(&notified, 1, __ATOMIC_RELEASE);
}

/* As a receiver that is told by a flag: when it sees one, all of what was sent before has to be there. */
static int watch(const volatile unsigned char *buffer, size_t bytes, unsigned rounds)
{
	const volatile uint32_t *flag = (const volatile uint32_t *)(buffer + bytes);
	int wrong = 0;
	double end = seconds() + 60;
	for (unsigned round = 1; round <= rounds; round++) {
		while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < round)
			if (vmmc_poll() < 0 || seconds() > end)
				return -1;
		for (size_t i = 0; i < bytes; i++)
			wrong += buffer[i] < (unsigned char)round;
	}
	return wrong;
}

int serve(FILE *from, FILE *to)
{
	char line[256], word[32];
	long long n[8];
	for (int i = 0; i < SLOTS; i++)
		buffers[i] = calloc(1, ROOM);
	while (fgets(line, sizeof line, from)) {
		memset(n, 0, sizeof n);
		if (sscanf(line, "%31s %lld %lld %lld %lld %lld %lld", word, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]) < 1)
			continue;
		int slot = (int)(n[0] & (SLOTS - 1));
		unsigned char *buffer = buffers[slot];
		if (!strcmp(word, "init")) {
			vmmc_process_t own = {0, 0, 0};
			int code = vmmc_init((uint32_t)n[0]);
			if (code == 0)
				code = vmmc_self(&own);
			fprintf(to, "%d %llu %u %d\n", code, (unsigned long long)own.node, own.number, getpid());
		} else if (!strcmp(word, "finalize")) {
			fprintf(to, "%d\n", vmmc_finalize());
		} else if (!strcmp(word, "export")) {
			/* id, bytes, node, number, whether it notifies, how much of the buffer is left out */
			vmmc_process_t who = {(uint64_t)n[2], (uint32_t)n[3], 0};
			memset(buffer, 0, ROOM);
			fprintf(to, "%d\n", vmmc_export(buffer, (size_t)n[1], (uint32_t)n[0], &who, 1,
			    n[4] ? note : NULL, n[4] > 1 ? &notified : NULL));
		} else if (!strcmp(word, "permit")) {
			vmmc_process_t who = {(uint64_t)n[1], (uint32_t)n[2], 0};
			fprintf(to, "%d\n", vmmc_permit((uint32_t)n[0], &who, 1));
		} else if (!strcmp(word, "unexport")) {
			fprintf(to, "%d\n", vmmc_unexport((uint32_t)n[0]));
		} else if (!strcmp(word, "filled")) {
			/* id, offset, bytes, seed: waits for it */
			fprintf(to, "0 %d\n", gets_filled(buffer + n[1], (size_t)n[2], (unsigned)n[3]));
		} else if (!strcmp(word, "zero")) {
			/* id, offset, bytes: nothing was written there */
			int zero = 1;
			for (long long i = 0; i < n[2]; i++)
				zero &= buffer[n[1] + i] == 0;
			fprintf(to, "0 %d\n", zero);
		} else if (!strcmp(word, "watch")) {
			fprintf(to, "0 %d\n", watch(buffer, (size_t)n[1], (unsigned)n[2]));
		} else if (!strcmp(word, "notified")) {
			/* how many: waits for them, without a call */
			UNTIL(GET(notified) >= n[0]);
			fprintf(to, "0 %d %u %llu %llu %u %d\n", notified, last.id, (unsigned long long)last.offset,
			    (unsigned long long)last.bytes, last.from.number, in_order);
			notified = 0, in_order = 1, memset(&last, 0, sizeof last);
		} else if (!strcmp(word, "import")) {
			/* slot, node, number, id */
			vmmc_process_t who = {(uint64_t)n[1], (uint32_t)n[2], 0};
			uint64_t bytes = 0;
			int code = vmmc_import(&who, (uint32_t)n[3], LONG, &proxies[slot], &bytes);
			fprintf(to, "%d %llu\n", code, (unsigned long long)bytes);
		} else if (!strcmp(word, "send")) {
			/* slot, offset, bytes, seed, whether to notify */
			fill(buffer, (size_t)n[2], (unsigned)n[3]);
			int (*send)(const void *, vmmc_proxy_t, size_t) = n[4] ? vmmc_send_notify : vmmc_send;
			fprintf(to, "%d\n", send(buffer, proxies[slot] + n[1], (size_t)n[2]));
		} else if (!strcmp(word, "notify")) {
			/* slot, how many: of one byte, one place after the other */
			int code = 0;
			for (long long i = 0; i < n[1] && code == 0; i++)
				code = vmmc_send_notify(buffer, proxies[slot] + i, 1);
			fprintf(to, "%d\n", code);
		} else if (!strcmp(word, "unimport")) {
			fprintf(to, "%d\n", vmmc_unimport(proxies[slot]));
		} else if (!strcmp(word, "again")) {
			/* As one that has died and was started again. */
			fprintf(to, "0\n");
			fflush(to);
			execl("/proc/self/exe", program, "peer", NULL);
			return 1;
		} else if (!strcmp(word, "exit")) {
			fprintf(to, "0\n");
			break;
		} else {
			fprintf(to, "1\n");
		}
		fflush(to);
	}
	fflush(to);
	for (int i = 0; i < SLOTS; i++)
		free(buffers[i]);
	return 0;
}

long long heard[8];

void tell(struct peer *peer, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vfprintf(peer->to, format, arguments);
	va_end(arguments);
	fputc('\n', peer->to);
	fflush(peer->to);
}

int hear(struct peer *peer)
{
	char line[256];
	int code = 1;
	if (!fgets(line, sizeof line, peer->from)) {
		fprintf(stderr, "in %s: the other process is gone\n", current);
		exit(1);
	}
	memset(heard, 0, sizeof heard);
	sscanf(line, "%d %lld %lld %lld %lld %lld %lld", &code, &heard[0], &heard[1], &heard[2], &heard[3], &heard[4],
	    &heard[5]);
	return code;
}

int ask(struct peer *peer, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vfprintf(peer->to, format, arguments);
	va_end(arguments);
	fputc('\n', peer->to);
	fflush(peer->to);
	return hear(peer);
}

void init_peer(struct peer *peer, int number)
{
	MUST(ask(peer, "init %u", (unsigned)number));
	peer->self.node = (uint64_t)heard[0];
	peer->self.number = (uint32_t)heard[1];
	peer->self.zero = 0;
	peer->pid = (int)heard[2];
}

void start_peer(struct peer *peer)
{
	int there[2], back[2];
	if (pipe(there) || pipe(back)) {
		perror("pipe");
		exit(1);
	}
	peer->pid = fork();
	if (peer->pid == 0) {
		dup2(there[0], 0);
		dup2(back[1], 1);
		close(there[0]), close(there[1]), close(back[0]), close(back[1]);
		execl(program, program, "peer", NULL);
		_exit(127);
	}
	close(there[0]), close(back[1]);
	peer->to = fdopen(there[1], "w");
	peer->from = fdopen(back[0], "r");
}

void stop_peer(struct peer *peer)
{
	int status;
	tell(peer, "exit");
	hear(peer);
	fclose(peer->to), fclose(peer->from);
	waitpid(peer->pid, &status, 0);
}
