/* emp-vmmc: measures deposits between two VMMC processes. */
#include <getopt.h>

#include "../../common/tools/measure.h"
#include "vmmc.h"

/* Process number of the side that waits, unless said otherwise. */
#define WAITER 4
/* Ids of what each side exports. */
enum { ORDERS = 1, DATA = 2, CREDIT = 3 };
/* Slots of the ring that a stream goes round in. */
enum { SLOTS = 16 };
/* Milliseconds until the other side must be there. */
#define THERE 20000

struct options {
	struct span span;
	const char *what, *destination;
	unsigned long number, remote;
};

/* What the active side tells the other of each length, in its orders. */
struct order {
	vmmc_process_t from;
	uint64_t length, repetitions, verify, last;
};

static struct order orders;
static unsigned char *data;
static uint64_t credit;
/* Notifications that have come, of orders and of data. */
static volatile uint64_t ordered, arrived;
static vmmc_proxy_t their_orders, their_data, their_credit;

static void must(const char *what, int code)
{
	if (code < 0) {
		fprintf(stderr, "emp-vmmc: %s: %s\n", what, vmmc_error(code));
		exit(1);
	}
}

static void note(const vmmc_notification_t *notification, void *context)
{
	(void)notification;
	__atomic_add_fetch((uint64_t *)context, 1, __ATOMIC_RELEASE);
}

/* Waits until a number that the other side, or a handler, changes is so large. */
static void reaches(volatile uint64_t *number, uint64_t wanted)
{
	while (__atomic_load_n(number, __ATOMIC_ACQUIRE) < wanted) {
		vmmc_import_info_t info;
		for (int i = 0; i < 1000 && __atomic_load_n(number, __ATOMIC_ACQUIRE) < wanted; i++)
			must("waiting", vmmc_poll());
		/* Whoever is waited for may have gone. */
		if (their_data) {
			must("the other side", vmmc_import_info(their_data, &info));
			must("the other side", info.state);
		}
	}
}

static void import_all(const vmmc_process_t *from)
{
	must("importing", vmmc_import(from, ORDERS, THERE, &their_orders, NULL));
	must("importing", vmmc_import(from, DATA, THERE, &their_data, NULL));
	must("importing", vmmc_import(from, CREDIT, THERE, &their_credit, NULL));
}

static void unimport_all(void)
{
	/* Of a side that has ended: nothing is lost by that. */
	vmmc_unimport(their_orders), vmmc_unimport(their_data), vmmc_unimport(their_credit);
}

/* One side of a round. Bytes are there when the notification is. */
static void pingpong(const struct order *order, unsigned char *out, int leads)
{
	uint64_t before = arrived;
	for (uint64_t i = 1; i <= order->repetitions; i++) {
		if (order->verify)
			fill(out, order->length, i + (uint64_t)leads);
		if (leads)
			must("sending", vmmc_send_notify(out, their_data, order->length));
		reaches(&arrived, before + i);
		if (order->verify)
			verify(data, order->length, i + (uint64_t)!leads);
		if (!leads)
			must("sending", vmmc_send_notify(out, their_data, order->length));
	}
}

/* From the one that leads to the other, as much as goes. */
static void stream(const struct order *order, unsigned char *out, int leads)
{
	uint64_t before = arrived, i;
	if (!leads) {
		reaches(&arrived, before + order->repetitions);
		must("sending", vmmc_send_notify(out, their_data, 1));
		return;
	}
	vmmc_send_t requests[SLOTS] = {0};
	for (i = 0; i < order->repetitions + SLOTS; i++) {
		unsigned char *slot = out + i % SLOTS * order->length;
		must("sending", vmmc_send_wait(&requests[i % SLOTS], VMMC_FOREVER));
		if (i < order->repetitions)
			must("sending", vmmc_send_start(slot, their_data + i % SLOTS * order->length,
			    order->length, 1, &requests[i % SLOTS]));
	}
	reaches(&arrived, before + 1);
}

/* The same through a ring in the receiver's buffer, as sockets over VMMC have it: who sends does not go round before the other
 * has read, and says so by a deposit of its own. Each slot is told of by a deposit too, without a notification. */
static void ring(const struct order *order, unsigned char *out, int leads)
{
	volatile uint64_t *count = (volatile uint64_t *)(data + SLOTS * order->length);
	vmmc_proxy_t their_count = their_data + SLOTS * order->length;
	for (uint64_t i = 1; i <= order->repetitions; i++) {
		uint64_t at = (i - 1) % SLOTS * order->length;
		if (leads) {
			if (i > SLOTS)
				reaches(&credit, i - SLOTS);
			if (order->verify)
				fill(out, order->length, i);
			must("sending", vmmc_send(out, their_data + at, order->length));
			must("sending", vmmc_send(&i, their_count, sizeof i));
		} else {
			reaches(count, i);
			if (order->verify)
				verify(data + at, order->length, i);
			if (i % (SLOTS / 2) == 0 || i == order->repetitions)
				must("sending", vmmc_send(&i, their_credit, sizeof i));
		}
	}
	if (leads)
		reaches(&credit, order->repetitions);
	else
		*count = 0;
	credit = 0;
}

static void run(const struct options *options, const struct order *order, unsigned char *out, int leads)
{
	if (!strcmp(options->what, "pingpong"))
		pingpong(order, out, leads);
	else if (!strcmp(options->what, "stream"))
		stream(order, out, leads);
	else
		ring(order, out, leads);
}

static void lead(const struct options *options, unsigned char *out)
{
	int there_and_back = !strcmp(options->what, "pingpong");
	vmmc_process_t other = {0, (uint32_t)options->remote, 0};
	struct order order = {.verify = (uint64_t)options->span.verify};
	must(options->destination, vmmc_node(options->destination, &other.node));
	must("who this is", vmmc_self(&order.from));
	import_all(&other);
	printf(there_and_back ? "%10s %14s %14s   half of a round trip\n" : "%10s %14s %14s   from here to there\n", "bytes",
	    there_and_back ? "us" : "deposits/s", "MB/s");
	for (uint64_t length = options->span.start; length <= options->span.end; length = next_length(length, &options->span)) {
		uint64_t ready = ordered;
		order.length = length;
		order.repetitions = repetitions(&options->span, length);
		must("sending", vmmc_send_notify(&order, their_orders, sizeof order));
		/* The other side has its imports, too. */
		reaches(&ordered, ready + 1);
		double start = now();
		run(options, &order, out, 1);
		start = (now() - start) / (double)order.repetitions;
		if (there_and_back)
			printf("%10llu %14.3f %14.3f\n", (unsigned long long)length, start / 2 * 1e6,
			    (double)length / (start / 2) / 1e6);
		else
			printf("%10llu %14.0f %14.3f\n", (unsigned long long)length, 1 / start, (double)length / start / 1e6);
		fflush(stdout);
	}
	order.last = 1;
	must("sending", vmmc_send_notify(&order, their_orders, sizeof order));
	must("sending", vmmc_drain(THERE));
}

static void follow(const struct options *options, unsigned char *out)
{
	vmmc_process_t own;
	char name[80] = "";
	must("who this is", vmmc_self(&own));
	must("who this is", vmmc_host(own.node, name, sizeof name));
	printf("waiting at %s, process %u\n", name, own.number);
	fflush(stdout);
	for (uint64_t wanted = 1;; wanted++) {
		reaches(&ordered, wanted);
		struct order order = orders;
		if (order.last)
			break;
		if (order.length > options->span.end) {
			fprintf(stderr, "emp-vmmc: the other side sends more than -E allows here\n");
			exit(1);
		}
		if (wanted == 1)
			import_all(&order.from);
		must("sending", vmmc_send_notify(NULL, their_orders, 0));
		run(options, &order, out, 0);
	}
}

static void usage(FILE *to)
{
	fprintf(to,
	    "emp-vmmc: measures deposits between two VMMC processes\n\n"
	    "usage: emp-vmmc pingpong|stream|ring [-p NUMBER]                      waits for the other side\n"
	    "       emp-vmmc pingpong|stream|ring -d HOST [-r NUMBER] [OPTIONS]    runs against it\n\n"
	    "  -d HOST          where the other side is\n"
	    "  -r NUMBER        its process number (%d)\n"
	    "  -p NUMBER        process number of this side (%d if it waits, any if not)\n"
	    SPAN_USAGE,
	    WAITER, WAITER);
}

int main(int count, char **arguments)
{
	struct options options = {.span = SPAN, .number = VMMC_ANY_PROCESS, .remote = WAITER};
	vmmc_process_t anyone = {VMMC_ANY_NODE, VMMC_ANY_PROCESS, 0};
	int option;
	tool = "emp-vmmc";
	while ((option = getopt(count, arguments, "d:r:p:h" SPAN_LETTERS)) != -1) {
		switch (option) {
		case 'd': options.destination = optarg; break;
		case 'r': options.remote = number(option, optarg, VMMC_PROCESSES - 1); break;
		case 'p': options.number = number(option, optarg, VMMC_PROCESSES - 1); break;
		case 'h': usage(stdout); return 0;
		default:
			if (!read_span(&options.span, option, optarg, 1ul << 30))
				return 2;
		}
	}
	options.what = optind < count ? arguments[optind] : "";
	if (optind + 1 != count ||
	    (strcmp(options.what, "pingpong") && strcmp(options.what, "stream") && strcmp(options.what, "ring"))) {
		usage(stderr);
		return 2;
	}
	check_span(&options.span);
	if (options.span.start < 1) {
		fprintf(stderr, "%s: -S must be at least 1\n", tool);
		return 2;
	}
	/* A count behind the ring, after slots of any length: so the ring's lengths are whole words. */
	size_t bytes = SLOTS * options.span.end + sizeof(uint64_t);
	unsigned char *out = calloc(1, bytes);
	data = calloc(1, bytes);
	if (!out || !data) {
		fprintf(stderr, "emp-vmmc: no memory for deposits of %lu bytes\n", options.span.end);
		return 1;
	}
	if (!options.destination && options.number == VMMC_ANY_PROCESS)
		options.number = WAITER;
	must("starting", vmmc_init((uint32_t)options.number));
	must("exporting", vmmc_export(data, bytes, DATA, &anyone, 1, note, (void *)&arrived));
	must("exporting", vmmc_export(&credit, sizeof credit, CREDIT, &anyone, 1, NULL, NULL));
	must("exporting", vmmc_export(&orders, sizeof orders, ORDERS, &anyone, 1, note, (void *)&ordered));
	if (options.destination)
		lead(&options, out);
	else
		follow(&options, out);
	unimport_all();
	must("ending", vmmc_finalize());
	free(out), free(data);
	return 0;
}
