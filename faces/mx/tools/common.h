/* What the tools of the MX face share: options, names, times. */
#ifndef COMMON_H
#define COMMON_H

#include "../../common/tools/measure.h"
#include "mx_extensions.h"
#include "myriexpress.h"

/* Where the two sides of a measurement are, unless said otherwise. */
#define RECEIVER_ID 4
#define KEY 0x656d7031u /* "emp1" */

static inline void fail(const char *what, mx_return_t code)
{
	fprintf(stderr, "%s: %s: %s\n", tool, what, mx_strerror(code));
	exit(1);
}

static inline void must(const char *what, mx_return_t code)
{
	if (code != MX_SUCCESS)
		fail(what, code);
}

/* What both sides of a measurement are told. */
struct options {
	struct span span;
	const char *destination;
	unsigned long board, id, remote_id;
	int blocking;
};

static inline void usage(const char *what, const char *more)
{
	fprintf(stderr,
	    "%s: %s\n\n"
	    "usage: %s [-b BOARD] [-e ID]                      waits for the other side\n"
	    "       %s -d HOST[:BOARD] [-r ID] [OPTIONS]       runs against it\n\n"
	    "  -d HOST[:BOARD]  where the other side is\n"
	    "  -r ID            its endpoint id (%d)\n"
	    "  -b BOARD         board of this side (any)\n"
	    "  -e ID            endpoint id of this side (%d if it waits, any if not)\n"
	    SPAN_USAGE
	    "  -w               wait by sleeping in mx_wait, not by looking with mx_test\n%s",
	    tool, what, tool, tool, RECEIVER_ID, RECEIVER_ID, more);
}

static inline struct options read_options(int count, char **arguments, const char *what, const char *more)
{
	struct options options = {.span = SPAN,
		.board = MX_ANY_NIC,
		.id = MX_ANY_ENDPOINT,
		.remote_id = RECEIVER_ID};
	int option;
	while ((option = getopt(count, arguments, "d:r:b:e:wh" SPAN_LETTERS)) != -1) {
		switch (option) {
		case 'd': options.destination = optarg; break;
		case 'r': options.remote_id = number(option, optarg, 255); break;
		case 'b': options.board = number(option, optarg, 255); break;
		case 'e': options.id = number(option, optarg, 255); break;
		case 'w': options.blocking = 1; break;
		case 'h': usage(what, more); exit(0);
		default:
			if (!read_span(&options.span, option, optarg, 1ul << 30))
				exit(2);
		}
	}
	if (optind < count) {
		fprintf(stderr, "%s: %s: unknown argument (-h shows what there is)\n", tool, arguments[optind]);
		exit(2);
	}
	check_span(&options.span);
	return options;
}

/* What the active side tells the passive one of each length; a length of END_OF_RUN ends. */
struct round {
	uint64_t length, repetitions, verify;
};
#define END_OF_RUN UINT64_MAX
enum { ROUND = 1, DATA = 2, DONE = 3 };

static mx_endpoint_t endpoint;
static mx_endpoint_addr_t peer;
static int blocking;

static inline mx_request_t start_send(uint64_t match, void *memory, uint32_t length)
{
	mx_segment_t segment = {memory, length};
	mx_request_t request = NULL;
	must("sending", mx_isend(endpoint, &segment, 1, peer, match, NULL, &request));
	return request;
}

static inline mx_request_t start_receive(uint64_t match, void *memory, uint32_t length)
{
	mx_segment_t segment = {memory, length};
	mx_request_t request = NULL;
	must("receiving", mx_irecv(endpoint, &segment, 1, match, MX_MATCH_MASK_NONE, NULL, &request));
	return request;
}

static inline mx_status_t finish(mx_request_t request)
{
	mx_status_t status;
	uint32_t done = 0;
	while (!done) {
		if (blocking)
			must("waiting", mx_wait(endpoint, &request, MX_INFINITE, &status, &done));
		else
			must("testing", mx_test(endpoint, &request, &status, &done));
	}
	if (status.code != MX_STATUS_SUCCESS) {
		fprintf(stderr, "%s: the other side: %s\n", tool, mx_strstatus(status.code));
		exit(1);
	}
	return status;
}

/* Opens this side, and connects it if it is the active one; the passive one learns its peer by the first round. */
static inline void open_side(const struct options *options)
{
	uint64_t nic;
	char name[MX_MAX_HOSTNAME_LEN];
	uint32_t id = (uint32_t)options->id;
	mx_endpoint_addr_t own;
	mx_set_error_handler(MX_ERRORS_RETURN);
	must("starting", mx_init());
	if (options->destination == NULL && options->id == MX_ANY_ENDPOINT)
		id = RECEIVER_ID;
	must("opening an endpoint", mx_open_endpoint((uint32_t)options->board, id, KEY, NULL, 0, &endpoint));
	blocking = options->blocking;
	if (options->destination != NULL) {
		must(options->destination, mx_hostname_to_nic_id((char *)options->destination, &nic));
		/* The other side may be about to begin. */
		double start = now();
		mx_return_t code;
		do
			code = mx_connect(endpoint, nic, (uint32_t)options->remote_id, KEY, 10000, &peer);
		while (code == MX_CONNECTION_FAILED && now() - start < 10 && usleep(10000) == 0);
		must(options->destination, code);
		return;
	}
	must("its address", mx_get_endpoint_addr(endpoint, &own));
	must("its address", mx_decompose_endpoint_addr(own, &nic, &id));
	must("its name", mx_nic_id_to_hostname(nic, name));
	printf("waiting at %s, endpoint %u\n", name, id);
	fflush(stdout);
}

#endif
