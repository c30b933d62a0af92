/* Two sides with one VI each, for the measurements between them. */
#ifndef PAIR_H
#define PAIR_H

#include "common.h"

/* What the side that leads tells the other of each length; a length of all ones ends the run. */
struct round {
	uint64_t length, repetitions, verify;
};
#define END_OF_RUN UINT64_MAX

static VIP_VI_HANDLE vi;
static int blocking;
/* Sends under way, the number of the next, and messages since the last credit. */
static unsigned under_way, next_send;

static inline void start(const struct options *options)
{
	room = options->span.end < sizeof(struct round) ? 4096 : (options->span.end + 4095) / 4096 * 4096;
	blocking = options->blocking;
	open_nic(options, 4096 + (RECEIVES + SENDS) * room);
	vi = new_vi(options);
	for (int n = 0; n < RECEIVES; n++)
		must("posting a receive", VipPostRecv(vi, descriptor(n, room), handle));
	if (options->destination != NULL)
		be_client(vi, options->destination, options->point);
	else
		be_server(vi, options->point, VIP_INFINITE);
}

static inline unsigned char *data(VIP_DESCRIPTOR *d)
{
	return d->DS[0].Local.Data.Address;
}

/* Waits until no more than so many sends are under way. */
static inline void drain(unsigned left)
{
	for (; under_way > left; under_way--)
		sent(vi, blocking);
}

/* The descriptor of the next send. */
static inline VIP_DESCRIPTOR *outgoing(uint64_t length)
{
	drain(SENDS - 1);
	return descriptor(RECEIVES + (int)(next_send++ % SENDS), length);
}

static inline void post(VIP_DESCRIPTOR *d)
{
	must("posting a send", VipPostSend(vi, d, handle));
	under_way++;
}

static inline void again(VIP_DESCRIPTOR *d)
{
	d->CS.Status = 0;
	must("posting a receive", VipPostRecv(vi, d, handle));
}

static inline void tell(const struct round *round)
{
	VIP_DESCRIPTOR *d = outgoing(sizeof *round);
	memcpy(data(d), round, sizeof *round);
	post(d);
}

/* What is next; 0: the run is over. */
static inline int hear(struct round *round)
{
	VIP_DESCRIPTOR *d = received(vi, blocking);
	memcpy(round, data(d), sizeof *round);
	again(d);
	if (round->length == END_OF_RUN)
		return 0;
	if (round->length > room) {
		fprintf(stderr, "%s: the other side sends more than -E allows here\n", tool);
		exit(1);
	}
	return 1;
}

static inline void stop(int leads)
{
	VIP_DESCRIPTOR *d;
	drain(0);
	/* Who leads has told the other of the end, and waits until that has left: it sees the end of the connection. */
	if (leads)
		while (VipRecvWait(vi, 5000, &d) == VIP_SUCCESS)
			;
	must("disconnecting", VipDisconnect(vi));
	while (VipRecvDone(vi, &d) == VIP_DESCRIPTOR_ERROR && d != NULL)
		;
	must("the VI", VipDestroyVi(vi));
	close_nic();
}

#endif
