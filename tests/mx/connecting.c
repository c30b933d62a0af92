/* Connecting, addresses, sessions; peers that go. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

void test_connecting(void)
{
	mx_endpoint_addr_t address;
	mx_request_t request = NULL;
	mx_status_t status;
	uint32_t result, most;
	char mark;
	double start;
	OK(mx_get_info(NULL, MX_MAX_NATIVE_ENDPOINTS, NULL, 0, &most, sizeof most));
	RETURNS(mx_connect(a, nic, id_b, KEY, LONG, &address), MX_BAD_CONNECTION_KEY);
	RETURNS(mx_connect(a, nic, most, KEY, LONG, &address), MX_BAD_ENDPOINT_ID);
	RETURNS(mx_connect(a, nic, most - 1, KEY, LONG, &address), MX_CONNECTION_FAILED);
	RETURNS(mx_connect(a, 0, id_b, KEY + 1, LONG, &address), MX_NIC_NOT_FOUND);
	RETURNS(mx_connect(a, UINT64_MAX, id_b, KEY + 1, LONG, &address), MX_NIC_NOT_FOUND);
	/* Nobody there: the time decides. */
	start = seconds();
	RETURNS(mx_connect(a, 0x020304050607, 0, KEY, 300, &address), MX_TIMEOUT);
	CHECK(seconds() - start >= 0.25 && seconds() - start < 10);
	/* To itself. */
	OK(mx_connect(a, nic, id_a, KEY, LONG, &address));
	RETURNS(mx_connect(a, nic, id_a, KEY + 9, LONG, &address), MX_BAD_CONNECTION_KEY);
	/* Again is the same address. */
	OK(mx_connect(a, nic, id_b, KEY + 1, LONG, &address));
	CHECK(memcmp(&address, &to_b, sizeof address) == 0);
	/* At once, with the end as a request's. */
	OK(mx_iconnect(a, nic, id_b, KEY + 1, 0x77, &mark, &request));
	status = ended(a, request);
	CHECK(status.code == MX_STATUS_SUCCESS && status.match_info == 0x77 && status.context == &mark);
	CHECK(memcmp(&status.source, &to_b, sizeof to_b) == 0);
	OK(mx_iconnect(a, nic, id_b, KEY, 0x78, NULL, &request));
	OK(mx_wait_any(a, LONG, 0x78, ALL, &status, &result));
	CHECK(result == 1 && status.code == MX_STATUS_BAD_KEY && status.match_info == 0x78);
	provoked("status", status.code);
	OK(mx_iconnect(a, nic, most - 1, KEY, 0x79, NULL, &request));
	CHECK(ended(a, request).code == MX_STATUS_ENDPOINT_CLOSED);
	RETURNS(mx_iconnect(a, nic, most, KEY, 0, NULL, &request), MX_BAD_ENDPOINT_ID);
	RETURNS(mx_iconnect(a, 0, 0, KEY, 0, NULL, &request), MX_NIC_NOT_FOUND);
	/* One that nobody waits for, and one that is cancelled. */
	OK(mx_iconnect(a, nic, id_b, KEY + 1, 0, NULL, NULL));
	OK(mx_iconnect(a, 0x020304050607, 0, KEY, 0, NULL, &request));
	OK(mx_cancel(a, &request, &result));
	CHECK(result == 1 && request == NULL);
}

void test_addresses(void)
{
	mx_endpoint_addr_t own, copy, none;
	mx_status_t status;
	mx_request_t request;
	uint64_t of;
	uint32_t id, session, other;
	int mark, second;
	void *context = &mark;
	char byte = 1;
	OK(mx_get_endpoint_addr(a, &own));
	OK(mx_decompose_endpoint_addr(own, &of, &id));
	CHECK(of == nic && id == id_a);
	OK(mx_decompose_endpoint_addr(to_b, &of, &id));
	CHECK(of == nic && id == id_b);
	OK(mx_decompose_endpoint_addr2(to_b, &of, &id, &session));
	CHECK(of == nic && id == id_b);
	OK(mx_get_endpoint_addr(b, &copy));
	OK(mx_decompose_endpoint_addr2(copy, NULL, NULL, &other));
	CHECK(session == other);
	/* One context for all copies of an address, null at first. */
	OK(mx_get_endpoint_addr_context(to_b, &context));
	CHECK(context == NULL);
	OK(mx_set_endpoint_addr_context(to_b, &mark));
	copy = to_b;
	OK(mx_get_endpoint_addr_context(copy, &context));
	CHECK(context == &mark);
	/* That of a sender is the same, whether or not it was connected to. */
	OK(mx_set_endpoint_addr_context(to_a, &second));
	OK(mx_isend(a, NULL, 0, to_b, 5, NULL, NULL));
	request = irecv(b, 5, ALL, &byte, 1);
	status = ended(b, request);
	CHECK(status.msg_length == 0 && memcmp(&status.source, &to_a, sizeof to_a) == 0);
	OK(mx_get_endpoint_addr_context(status.source, &context));
	CHECK(context == &second);
	OK(mx_set_endpoint_addr_context(to_b, NULL));
	OK(mx_get_endpoint_addr_context(to_b, &context));
	CHECK(context == NULL);
	/* What is no address of this process, or another endpoint's. */
	memset(&none, 0, sizeof none);
	RETURNS(mx_decompose_endpoint_addr(none, &of, &id), MX_BAD_ENDPOINT);
	RETURNS(mx_get_endpoint_addr_context(none, &context), MX_BAD_ENDPOINT);
	memset(&none, 0xff, sizeof none);
	RETURNS(mx_set_endpoint_addr_context(none, NULL), MX_BAD_ENDPOINT);
	RETURNS(mx_isend(a, NULL, 0, none, 0, NULL, NULL), MX_BAD_ENDPOINT);
	RETURNS(mx_isend(a, NULL, 0, to_a, 0, NULL, NULL), MX_BAD_ENDPOINT);
	RETURNS(mx_disconnect(a, none), MX_BAD_ENDPOINT);
}

/* An endpoint that is closed and opened again is another one. */
void test_sessions(void)
{
	mx_endpoint_addr_t old, new;
	mx_request_t request;
	mx_status_t status;
	uint32_t before, after;
	char byte = 3, got = 0;
	MUST(mx_open_endpoint(0, 11, KEY, NULL, 0, &a));
	MUST(mx_open_endpoint(0, 12, KEY, NULL, 0, &b));
	OK(mx_board_number_to_nic_id(0, &nic));
	OK(mx_connect(a, nic, 12, KEY, LONG, &old));
	CHECK(ended(a, isend(a, old, 1, &byte, 1)).code == MX_STATUS_SUCCESS);
	CHECK(ended(b, irecv(b, 1, ALL, &got, 1)).code == MX_STATUS_SUCCESS);
	OK(mx_close_endpoint(b));
	/* It says goodbye, which arrives at some time. */
	status.code = MX_STATUS_SUCCESS;
	UNTIL_BY(status.code != MX_STATUS_SUCCESS, status = ended(a, isend(a, old, 1, &byte, 1)));
	CHECK(status.code == MX_STATUS_ENDPOINT_CLOSED && status.xfer_length == 0);
	RETURNS(mx_connect(a, nic, 12, KEY, LONG, &new), MX_CONNECTION_FAILED);
	MUST(mx_open_endpoint(0, 12, KEY, NULL, 0, &b));
	OK(mx_connect(a, nic, 12, KEY, LONG, &new));
	OK(mx_decompose_endpoint_addr2(old, NULL, NULL, &before));
	OK(mx_decompose_endpoint_addr2(new, NULL, NULL, &after));
	CHECK(before != after);
	/* What was for the old one does not reach the new one. */
	CHECK(ended(a, isend(a, old, 1, &byte, 1)).code == MX_STATUS_BAD_SESSION);
	CHECK(ended(a, isend(a, new, 2, &byte, 1)).code == MX_STATUS_SUCCESS);
	CHECK(ended(b, irecv(b, 0, 0, &got, 1)).match_info == 2);
	/* After taking leave nothing is sent until somebody connects. */
	OK(mx_disconnect(a, new));
	CHECK(ended(a, isend(a, new, 3, &byte, 1)).code == MX_STATUS_BAD_SESSION);
	OK(mx_connect(a, nic, 12, KEY, LONG, &new));
	request = isend(a, new, 4, &byte, 1);
	CHECK(ended(a, request).code == MX_STATUS_SUCCESS);
	CHECK(ended(b, irecv(b, 0, 0, &got, 1)).match_info == 4);
	/* Whoever was connected to can answer without connecting. */
	request = irecv(a, 9, ALL, &got, 1);
	OK(mx_isend(a, NULL, 0, new, 8, NULL, NULL));
	status = ended(b, irecv(b, 8, ALL, &got, 1));
	CHECK(ended(b, isend(b, status.source, 9, &byte, 1)).code == MX_STATUS_SUCCESS);
	CHECK(ended(a, request).code == MX_STATUS_SUCCESS);
	close_both();
}

/* Who connects and what it sends come in one look: whoever sees the message first can answer it. */
void test_one_look(void)
{
	mx_endpoint_addr_t address;
	mx_request_t there, back, request;
	mx_segment_t one;
	mx_status_t status;
	uint32_t result = 0;
	char byte = 3, got = 0, answer = 0;
	MUST(mx_open_endpoint(0, 11, KEY, NULL, 0, &a));
	MUST(mx_open_endpoint(0, 12, KEY, NULL, 0, &b));
	OK(mx_board_number_to_nic_id(0, &nic));
	there = irecv(b, 8, ALL, &got, 1);
	/* The library answers for b, which does not look: the end of a synchronous send says that the message is there. */
	OK(mx_connect(a, nic, 12, KEY, LONG, &address));
	one = segment(&byte, 1);
	OK(mx_issend(a, &one, 1, address, 8, NULL, &request));
	OK(mx_wait(a, &request, LONG, &status, &result));
	CHECK(result == 1 && status.code == MX_STATUS_SUCCESS);
	back = irecv(a, 9, ALL, &answer, 1);
	result = 0;
	UNTIL_BY(result == 1, mx_test(b, &there, &status, &result));
	CHECK(status.code == MX_STATUS_SUCCESS && got == byte);
	CHECK(ended(b, isend(b, status.source, 9, &byte, 1)).code == MX_STATUS_SUCCESS);
	CHECK(ended(a, back).code == MX_STATUS_SUCCESS && answer == byte);
	close_both();
}

/* Another process, that opens an endpoint and is ended in the midst. */
static pid_t start(const char *id, int *out)
{
	int ends[2];
	char line[16];
	pid_t child;
	if (pipe(ends))
		exit(1);
	child = fork();
	if (child == 0) {
		dup2(ends[1], 1);
		execl(program, program, "open", id, (char *)NULL);
		_exit(99);
	}
	close(ends[1]);
	*out = ends[0];
	CHECK(read(ends[0], line, sizeof line) > 0);
	return child;
}

void test_killed_peer(void)
{
	enum { BYTES = 1 << 20 };
	static unsigned char much[BYTES];
	mx_endpoint_addr_t address;
	mx_request_t sends[3];
	mx_endpoint_t endpoint;
	mx_status_t status;
	uint32_t result;
	int out, how;
	pid_t child = start("21", &out);
	OK(mx_board_number_to_nic_id(0, &nic));
	MUST(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &endpoint));
	/* The id is taken, by another process. */
	RETURNS(mx_open_endpoint(0, 21, KEY, NULL, 0, &a), MX_BUSY);
	OK(mx_connect(endpoint, nic, 21, KEY, LONG, &address));
	for (int i = 0; i < 3; i++)
		sends[i] = isend(endpoint, address, 1, much, BYTES);
	OK(mx_test(endpoint, &sends[0], &status, &result));
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &how, 0) == child);
	close(out);
	for (int i = 0; i < 3; i++) {
		status = ended(endpoint, sends[i]);
		CHECK(status.code == MX_STATUS_ENDPOINT_UNREACHABLE
		    || status.code == MX_STATUS_ENDPOINT_CLOSED);
	}
	status = ended(endpoint, isend(endpoint, address, 1, much, 1));
	CHECK(status.code != MX_STATUS_SUCCESS);
	/* The id is free again, whatever the dead one has left. */
	child = start("21", &out);
	OK(mx_connect(endpoint, nic, 21, KEY, LONG, &address));
	CHECK(ended(endpoint, isend(endpoint, address, 1, much, 1)).code == MX_STATUS_SUCCESS);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &how, 0) == child);
	close(out);
	OK(mx_close_endpoint(endpoint));
}

void test_fork(void)
{
	int how;
	pid_t child;
	char byte = 1, got = 0;
	mx_request_t request = irecv(b, 1, ALL, &got, 1);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		/* Nothing works, nothing hangs, and the parent is not disturbed. */
		uint32_t result;
		int refused = mx_progress(a) != MX_SUCCESS
		    && mx_test(b, &request, NULL, &result) != MX_SUCCESS
		    && mx_finalize() == MX_BAD_BAD_BAD;
		_exit(refused ? 0 : 9);
	}
	CHECK(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0);
	if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
		provoked("return", MX_BAD_BAD_BAD);
	CHECK(ended(a, isend(a, to_b, 1, &byte, 1)).code == MX_STATUS_SUCCESS);
	CHECK(ended(b, request).code == MX_STATUS_SUCCESS && got == 1);
}
