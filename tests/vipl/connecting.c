/* Connecting: client and server, peers, and who fits whom. */
#include <pthread.h>

#include "check.h"

/* What a server does with the next request. */
struct server {
	const char *point;
	VIP_VI_HANDLE vi;
	VIP_ULONG timeout;
	int reject;
	/* It answers only when it is let. */
	int held;
	/* A VI that does not fit, tried first. */
	VIP_VI_HANDLE first;
	VIP_RETURN first_wanted;
	VIP_RETURN waited, answered;
	VIP_VI_ATTRIBUTES remote;
	char from[ADDRESS_BYTES] __attribute__((aligned(8)));
	pthread_t thread;
};

static void *serve(void *argument)
{
	struct server *server = argument;
	VIP_CONN_HANDLE connection = NULL;
	server->waited = VipConnectWait(b.nic, address(&b, server->point), server->timeout,
	    (VIP_NET_ADDRESS *)server->from, &server->remote, &connection);
	server->answered = VIP_NOT_DONE;
	if (server->waited != VIP_SUCCESS)
		return NULL;
	UNTIL(!GET(server->held));
	if (server->first)
		RETURNS(VipConnectAccept(connection, server->first), server->first_wanted);
	if (server->reject)
		server->answered = VipConnectReject(connection);
	else
		server->answered = VipConnectAccept(connection, server->vi);
	/* It was used up. */
	if (server->answered == VIP_SUCCESS) {
		BAD(VipConnectReject(connection));
		BAD(VipConnectAccept(connection, server->vi));
	}
	return NULL;
}

static void begin(struct server *server)
{
	pthread_create(&server->thread, NULL, serve, server);
}

static void end(struct server *server)
{
	SET(server->held, 0);
	pthread_join(server->thread, NULL);
}

/* Asks until the server waits. */
static VIP_RETURN ask(VIP_VI_HANDLE vi, const char *point, VIP_ULONG timeout, VIP_VI_ATTRIBUTES *remote)
{
	VIP_RETURN code;
	double start = seconds();
	do
		code = VipConnectRequest(vi, address(&a, "who asks"), address(&b, point), timeout, remote);
	while (code == VIP_NO_MATCH && seconds() - start < 20);
	return code;
}

void test_connecting(void)
{
	static const VIP_RELIABILITY_LEVEL levels[] = {1, 2, 4};
	for (int i = 0; i < 3; i++) {
		VIP_VI_ATTRIBUTES remote;
		struct server server = {.point = "here", .timeout = LONG};
		VIP_VI_ATTRIBUTES wanted = attributes(&b, levels[i]);
		a.vi = new_vi(&a, levels[i]);
		wanted.EnableRdmaWrite = VIP_FALSE;
		MUST(VipCreateVi(b.nic, &wanted, NULL, NULL, &b.vi));
		server.vi = b.vi;
		begin(&server);
		OK(ask(a.vi, "here", LONG, &remote));
		end(&server);
		OK(server.waited);
		OK(server.answered);
		/* Each has learned of the other. */
		VIP_NET_ADDRESS *from = (VIP_NET_ADDRESS *)server.from;
		CHECK(from->HostAddressLen == 6 && from->DiscriminatorLen == 8);
		CHECK(memcmp(from->HostAddress, a.about.LocalNicAddress, 6) == 0);
		CHECK(memcmp(from->HostAddress + 6, "who asks", 8) == 0);
		CHECK(server.remote.ReliabilityLevel == levels[i] && server.remote.EnableRdmaWrite == VIP_TRUE);
		CHECK(remote.ReliabilityLevel == levels[i] && remote.EnableRdmaWrite == VIP_FALSE);
		CHECK(remote.MaxTransferSize == TRANSFER && remote.Ptag == NULL);
		CHECK(state_of(a.vi) == VIP_STATE_CONNECTED && state_of(b.vi) == VIP_STATE_CONNECTED);
		RETURNS(ask(a.vi, "here", LONG, &remote), VIP_INVALID_STATE);
		/* Taken apart, and together again. */
		OK(VipDisconnect(a.vi));
		told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
		CHECK(state_of(a.vi) == VIP_STATE_IDLE && state_of(b.vi) == VIP_STATE_ERROR);
		OK(VipDisconnect(b.vi));
		CHECK(state_of(b.vi) == VIP_STATE_IDLE);
		OK(VipDisconnect(b.vi));
		begin(&server);
		OK(ask(a.vi, "here", LONG, NULL));
		end(&server);
		OK(server.answered);
		part_both();
	}
}

void test_requests(void)
{
	VIP_VI_ATTRIBUTES remote;
	VIP_CONN_HANDLE connection;
	char from[ADDRESS_BYTES] __attribute__((aligned(8)));
	VIP_NET_ADDRESS *out = (VIP_NET_ADDRESS *)from;
	a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	b.vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	/* Nobody is there. */
	RETURNS(VipConnectRequest(a.vi, address(&a, "x"), address(&b, "nobody"), LONG, &remote), VIP_NO_MATCH);
	CHECK(state_of(a.vi) == VIP_STATE_IDLE);
	RETURNS(VipConnectWait(b.nic, address(&b, "nobody"), 30, out, &remote, &connection), VIP_TIMEOUT);
	RETURNS(VipConnectWait(b.nic, address(&b, "nobody"), 0, out, &remote, &connection), VIP_TIMEOUT);
	/* Who waits does not want it. */
	struct server server = {.point = "here", .vi = b.vi, .timeout = LONG, .reject = 1};
	begin(&server);
	RETURNS(ask(a.vi, "here", LONG, &remote), VIP_REJECT);
	end(&server);
	OK(server.answered);
	CHECK(state_of(a.vi) == VIP_STATE_IDLE);
	/* The server takes too long, and finds that out. */
	server = (struct server){.point = "here", .vi = b.vi, .timeout = LONG, .held = 1};
	begin(&server);
	RETURNS(ask(a.vi, "here", 150, &remote), VIP_TIMEOUT);
	CHECK(state_of(a.vi) == VIP_STATE_IDLE);
	end(&server);
	RETURNS(server.answered, VIP_TIMEOUT);
	CHECK(state_of(b.vi) == VIP_STATE_IDLE);
	/* It is rejected too late. */
	server = (struct server){.point = "here", .vi = b.vi, .timeout = LONG, .held = 1, .reject = 1};
	begin(&server);
	RETURNS(ask(a.vi, "here", 100, &remote), VIP_TIMEOUT);
	end(&server);
	OK(server.answered);
	/* Two cannot wait at one address. */
	struct server two[2] = {{.point = "here", .vi = b.vi, .timeout = 3000}, {.point = "here", .vi = b.vi, .timeout = 3000}};
	begin(&two[0]);
	begin(&two[1]);
	end(&two[0]);
	end(&two[1]);
	int first = two[0].waited == VIP_TIMEOUT ? 0 : 1;
	RETURNS(two[first].waited, VIP_TIMEOUT);
	RETURNS(two[!first].waited, VIP_ERROR_RESOURCE);
	/* A machine that does not answer. */
	VIP_NET_ADDRESS *far = address(&b, "far");
	memcpy(far->HostAddress, "\x02\x45\x7f\x01\x02\x03", 6);
	RETURNS(VipConnectRequest(a.vi, address(&a, "x"), far, 200, &remote), VIP_TIMEOUT);
	/* Mistakes. */
	VIP_NET_ADDRESS *wrong = address(&a, "x");
	BAD(VipConnectRequest(a.vi, address(&a, "x"), address(&b, "y"), 0, &remote));
	BAD(VipConnectRequest(a.vi, NULL, address(&b, "y"), LONG, &remote));
	BAD(VipConnectRequest(a.vi, address(&a, "x"), NULL, LONG, &remote));
	BAD(VipConnectRequest(NOTHING, address(&a, "x"), address(&b, "y"), LONG, &remote));
	wrong->HostAddressLen = 5;
	BAD(VipConnectRequest(a.vi, wrong, address(&b, "y"), LONG, &remote));
	wrong->HostAddressLen = 6;
	wrong->DiscriminatorLen = 65;
	BAD(VipConnectWait(a.nic, wrong, 1, out, &remote, &connection));
	wrong->DiscriminatorLen = 1;
	VIP_UINT8 *last = (VIP_UINT8 *)wrong + 9;
	*last ^= 1;
	/* Not an address of this NIC. */
	BAD(VipConnectWait(a.nic, wrong, 1, out, &remote, &connection));
	BAD(VipConnectRequest(a.vi, wrong, address(&b, "y"), LONG, &remote));
	BAD(VipConnectWait(b.nic, NULL, 1, out, &remote, &connection));
	BAD(VipConnectWait(b.nic, address(&b, "y"), 1, out, &remote, NULL));
	BAD(VipConnectWait(NOTHING, address(&b, "y"), 1, out, &remote, &connection));
	BAD(VipConnectAccept(NOTHING, b.vi));
	BAD(VipConnectReject(NOTHING));
	BAD(VipDisconnect(NOTHING));
	OK(VipDestroyVi(a.vi));
	OK(VipDestroyVi(b.vi));
}

void test_agreement(void)
{
	VIP_VI_ATTRIBUTES wanted;
	a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	b.vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	/* What does not fit is refused; the client is not told, and another VI may be tried. */
	struct server server = {.point = "here", .vi = b.vi, .timeout = LONG};
	server.first = new_vi(&b, VIP_SERVICE_RELIABLE_RECEPTION);
	server.first_wanted = VIP_INVALID_RELIABILITY_LEVEL;
	begin(&server);
	OK(ask(a.vi, "here", LONG, NULL));
	end(&server);
	OK(server.answered);
	OK(VipDestroyVi(server.first));
	OK(VipDisconnect(a.vi));
	told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
	OK(VipDisconnect(b.vi));
	wanted = attributes(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	wanted.MaxTransferSize = 32768;
	MUST(VipCreateVi(b.nic, &wanted, NULL, NULL, &server.first));
	server.first_wanted = VIP_INVALID_MTU;
	begin(&server);
	OK(ask(a.vi, "here", LONG, NULL));
	end(&server);
	OK(server.answered);
	OK(VipDestroyVi(server.first));
	/* A VI that is connected already, and one of another NIC. */
	struct server again = {.point = "again", .vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY), .timeout = LONG};
	VIP_VI_HANDLE client = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	again.first = b.vi;
	again.first_wanted = VIP_INVALID_STATE;
	begin(&again);
	OK(ask(client, "again", LONG, NULL));
	end(&again);
	OK(again.answered);
	OK(VipDisconnect(client));
	told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
	OK(VipDisconnect(again.vi));
	again.first = client;
	again.first_wanted = VIP_INVALID_PARAMETER;
	VIP_VI_HANDLE other = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	begin(&again);
	OK(ask(other, "again", LONG, NULL));
	end(&again);
	OK(again.answered);
	OK(VipDisconnect(again.vi));
	told(&a, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
	OK(VipDisconnect(other));
	OK(VipDestroyVi(again.vi));
	OK(VipDestroyVi(client));
	OK(VipDestroyVi(other));
	part_both();
}

void test_peers(void)
{
	VIP_VI_ATTRIBUTES remote;
	a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	b.vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	for (int later = 0; later < 3; later++) {
		OK(VipConnectPeerRequest(a.vi, address(&a, "left"), address(&b, "right"), LONG));
		if (later == 1) {
			RETURNS(VipConnectPeerDone(a.vi, &remote), VIP_NOT_DONE);
			CHECK(state_of(a.vi) == VIP_STATE_CONNECT_PENDING);
			RETURNS(VipConnectPeerRequest(a.vi, address(&a, "l"), address(&b, "r"), LONG), VIP_INVALID_STATE);
			RETURNS(VipConnectRequest(a.vi, address(&a, "l"), address(&b, "r"), LONG, &remote), VIP_INVALID_STATE);
			/* So long that both have asked several times. */
			pause_ms(100);
		}
		OK(VipConnectPeerRequest(b.vi, address(&b, "right"), address(&a, "left"), LONG));
		if (later == 2) {
			VIP_RETURN code;
			while ((code = VipConnectPeerDone(b.vi, &remote)) == VIP_NOT_DONE)
				;
			OK(code);
		} else
			OK(VipConnectPeerWait(b.vi, &remote));
		OK(VipConnectPeerWait(a.vi, &remote));
		CHECK(remote.ReliabilityLevel == VIP_SERVICE_RELIABLE_DELIVERY && remote.EnableRdmaWrite);
		CHECK(state_of(a.vi) == VIP_STATE_CONNECTED && state_of(b.vi) == VIP_STATE_CONNECTED);
		VIP_DESCRIPTOR *in = descriptor(&b, 1, 0, 100), *out = descriptor(&a, 1, 0, 100);
		post_recv(&b, in);
		post_send(&a, out);
		sent(&a, out, DONE);
		received(&b, in, RECEIVED, 100);
		OK(VipDisconnect(a.vi));
		told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
		OK(VipDisconnect(b.vi));
	}
	/* Nobody comes. */
	OK(VipConnectPeerRequest(a.vi, address(&a, "left"), address(&b, "right"), 120));
	RETURNS(VipConnectPeerWait(a.vi, &remote), VIP_TIMEOUT);
	RETURNS(VipConnectPeerWait(a.vi, &remote), VIP_INVALID_STATE);
	RETURNS(VipConnectPeerDone(a.vi, &remote), VIP_INVALID_STATE);
	/* Somebody else comes: a client, and a peer that wants another one. */
	OK(VipConnectPeerRequest(a.vi, address(&a, "left"), address(&b, "right"), 400));
	OK(VipConnectPeerRequest(b.vi, address(&b, "wrong"), address(&a, "left"), 200));
	VIP_VI_HANDLE client = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	RETURNS(VipConnectRequest(client, address(&b, "right"), address(&a, "left"), LONG, &remote), VIP_NO_MATCH);
	RETURNS(VipConnectPeerWait(b.vi, &remote), VIP_TIMEOUT);
	RETURNS(VipConnectPeerWait(a.vi, &remote), VIP_TIMEOUT);
	OK(VipDestroyVi(client));
	/* Given up by disconnecting. */
	OK(VipConnectPeerRequest(a.vi, address(&a, "left"), address(&b, "right"), LONG));
	OK(VipDisconnect(a.vi));
	CHECK(state_of(a.vi) == VIP_STATE_IDLE);
	/* Both do not fit: both hear why. */
	VIP_VI_ATTRIBUTES wanted = attributes(&b, VIP_SERVICE_UNRELIABLE);
	OK(VipSetViAttributes(b.vi, &wanted));
	OK(VipConnectPeerRequest(a.vi, address(&a, "left"), address(&b, "right"), LONG));
	OK(VipConnectPeerRequest(b.vi, address(&b, "right"), address(&a, "left"), LONG));
	RETURNS(VipConnectPeerWait(a.vi, &remote), VIP_INVALID_RELIABILITY_LEVEL);
	RETURNS(VipConnectPeerWait(b.vi, &remote), VIP_INVALID_RELIABILITY_LEVEL);
	/* Mistakes. */
	BAD(VipConnectPeerRequest(a.vi, address(&a, "left"), address(&b, "right"), 0));
	BAD(VipConnectPeerRequest(a.vi, NULL, address(&b, "right"), LONG));
	BAD(VipConnectPeerRequest(a.vi, address(&a, "left"), NULL, LONG));
	BAD(VipConnectPeerRequest(NOTHING, address(&a, "left"), address(&b, "right"), LONG));
	BAD(VipConnectPeerDone(NOTHING, &remote));
	BAD(VipConnectPeerWait(NOTHING, &remote));
	OK(VipConnectPeerRequest(a.vi, address(&a, "left"), address(&b, "right"), LONG));
	RETURNS(VipConnectPeerRequest(b.vi, address(&b, "left"), address(&a, "right"), LONG), VIP_ERROR_RESOURCE);
	OK(VipDisconnect(a.vi));
	drain(a.vi);
	drain(b.vi);
	OK(VipDestroyVi(a.vi));
	OK(VipDestroyVi(b.vi));
}

/* None at all, the longest, and bytes of any kind are told apart. */
void test_discriminators(void)
{
	static const char *const points[] = {"", "x",
	    "0123456789012345678901234567890123456789012345678901234567890123",
	    "0123456789012345678901234567890123456789012345678901234567890124", "\x01\xff\x80/"};
	for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
		struct server server = {.point = points[i], .timeout = LONG};
		a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
		b.vi = server.vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
		begin(&server);
		/* Another one does not answer for it. */
		const char *other = points[(i + 1) % (sizeof points / sizeof *points)];
		RETURNS(VipConnectRequest(a.vi, address(&a, ""), address(&b, other), LONG, NULL), VIP_NO_MATCH);
		OK(ask(a.vi, points[i], LONG, NULL));
		end(&server);
		OK(server.answered);
		part_both();
	}
}
