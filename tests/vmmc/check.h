/* What the tests of the VMMC face share: the other process that most of them talk to. */
#ifndef CHECK_H
#define CHECK_H

#include "vmmc.h"

#define SUCCESS VMMC_OK
#define CODE_NAME(code) vmmc_error(code)

#include "../faces/check.h"

/* Another process, which does what it is told, one line at a time (peer.c). */
struct peer {
	FILE *from, *to;
	int pid;
	/* What it is to others. */
	vmmc_process_t self;
};

/* The one that most tests are with, perhaps on another host; and whether its processes are here. */
extern struct peer them;
extern vmmc_process_t self;
extern int is_here;

int serve(FILE *from, FILE *to);
void start_peer(struct peer *peer);
void stop_peer(struct peer *peer);
/* Tells it something; hears what it answers, whose first word is a code; both at once. */
void tell(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));
int hear(struct peer *peer);
int ask(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The numbers behind the code. */
extern long long heard[8];
void init_peer(struct peer *peer, int number);

/* Waits until it is. */
int gets_filled(const volatile unsigned char *memory, size_t length, unsigned seed);
vmmc_proxy_t import(struct peer *peer, uint32_t id, uint64_t bytes);

/* The tests. */
void test_layout(void);
void test_library(void);
void test_names(void);
void test_exporting(void);
void test_permission(void);
void test_importing(void);
void test_waiting_imports(void);
void test_addresses(void);
void test_sizes(void);
void test_order(void);
void test_asynchronous(void);
void test_receiving(void);
void test_notifications(void);
void test_blocking(void);
void test_computing(void);
void test_redirection(void);
void test_late_redirection(void);
void test_generations(void);
void test_closed(void);
void test_restart(void);
void test_silence(void);
void test_killed(void);
void test_itself(void);
void test_threads(void);
void test_many(void);
void test_finalized(void);
void test_fork(void);

#endif
