/* The library, its endpoints, names and facts. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

void test_library(void)
{
	mx_endpoint_t endpoint = NULL;
	mx_endpoint_addr_t address;
	uint64_t id;
	uint32_t number;
	char name[MX_MAX_HOSTNAME_LEN];
	void *context;
	mx_request_t request = NULL;
	memset(&address, 0, sizeof address);
	/* Before the beginning. */
	RETURNS(mx_finalize(), MX_NOT_INITIALIZED);
	RETURNS(mx_open_endpoint(0, 0, KEY, NULL, 0, &endpoint), MX_NOT_INITIALIZED);
	RETURNS(mx_close_endpoint(endpoint), MX_NOT_INITIALIZED);
	RETURNS(mx_get_endpoint_addr(endpoint, &address), MX_NOT_INITIALIZED);
	RETURNS(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &number, sizeof number), MX_NOT_INITIALIZED);
	RETURNS(mx_hostname_to_nic_id("localhost:0", &id), MX_NOT_INITIALIZED);
	RETURNS(mx_nic_id_to_hostname(1, name), MX_NOT_INITIALIZED);
	RETURNS(mx_board_number_to_nic_id(0, &id), MX_NOT_INITIALIZED);
	RETURNS(mx_nic_id_to_board_number(1, &number), MX_NOT_INITIALIZED);
	RETURNS(mx_decompose_endpoint_addr(address, &id, &number), MX_NOT_INITIALIZED);
	RETURNS(mx_context(&request, &context), MX_NOT_INITIALIZED);
	RETURNS(mx_set_endpoint_addr_context(address, NULL), MX_NOT_INITIALIZED);
	/* Versions that this library is not. */
	RETURNS(mx__init_api(0), MX_BAD_LIB_VERSION);
	RETURNS(mx__init_api(0x201), MX_BAD_LIB_VERSION);
	RETURNS(mx__init_api(0x401), MX_BAD_LIB_VERSION);
	/* MX 1.0 programs, and those of later ones. */
	OK(mx__init_api(0x300));
	OK(mx_finalize());
	OK(mx__init_api(0x3ff));
	RETURNS(mx_init(), MX_ALREADY_INITIALIZED);
	/* The end takes endpoints along, and what is new knows nothing of them. */
	OK(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &endpoint));
	OK(mx_finalize());
	RETURNS(mx_finalize(), MX_NOT_INITIALIZED);
	OK(mx_init());
	RETURNS(mx_close_endpoint(endpoint), MX_BAD_ENDPOINT);
	OK(mx_finalize());
	/* Files are used up. */
	struct rlimit before, none;
	OK(mx_init());
	CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = before;
	none.rlim_cur = 0;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	RETURNS(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &endpoint), MX_NO_RESOURCES);
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
	OK(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &endpoint));
	OK(mx_finalize());
	/* Settings that make no sense, and an interface that is not there. */
	setenv("EMP_LINK", "carrier pigeon", 1);
	RETURNS(mx_init(), MX_FAILURE);
	unsetenv("EMP_LINK");
	{
		const char *before = getenv("EMP_INTERFACE");
		char *kept = before ? strdup(before) : NULL;
		setenv("EMP_INTERFACE", "no such interface", 1);
		RETURNS(mx_init(), MX_NO_DEV);
		if (kept)
			setenv("EMP_INTERFACE", kept, 1);
		else
			unsetenv("EMP_INTERFACE");
		free(kept);
	}
}

/* Runs this program again. */
static int again(const char *mode)
{
	int how = -1;
	pid_t child = fork();
	if (child == 0) {
		execl(program, program, mode, (char *)NULL);
		_exit(99);
	}
	CHECK(waitpid(child, &how, 0) == child);
	return how;
}

static int handled;
static mx_return_t handled_code;

static mx_return_t count_and_return(char *text, mx_return_t code)
{
	handled++;
	handled_code = code;
	CHECK(text && strlen(text) > 4);
	return code;
}

static mx_return_t say_busy(char *text, mx_return_t code)
{
	(void)text;
	(void)code;
	return MX_BUSY;
}

void test_handlers(void)
{
	uint64_t id;
	mx_param_t parameter;
	mx_endpoint_t other;
	int how;
	/* The one before is given back. */
	CHECK(mx_set_error_handler(count_and_return) == MX_ERRORS_RETURN);
	handled = 0;
	RETURNS(mx_board_number_to_nic_id(999, &id), MX_BOARD_UNKNOWN);
	CHECK(handled == 1 && handled_code == MX_BOARD_UNKNOWN);
	OK(mx_board_number_to_nic_id(0, &id));
	CHECK(handled == 1);
	/* What a handler returns the call returns. */
	CHECK(mx_set_error_handler(say_busy) == count_and_return);
	RETURNS(mx_board_number_to_nic_id(999, &id), MX_BUSY);
	/* An endpoint's own comes before the process's. */
	memset(&parameter, 0, sizeof parameter);
	parameter.key = MX_PARAM_ERROR_HANDLER;
	parameter.val.error_handler = count_and_return;
	MUST(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, &parameter, 1, &other));
	RETURNS(mx_cancel(other, NULL, NULL), MX_BAD_REQUEST);
	CHECK(handled == 2 && handled_code == MX_BAD_REQUEST);
	RETURNS(mx_cancel(a, NULL, NULL), MX_BUSY);
	OK(mx_close_endpoint(other));
	/* The first one ends the process. */
	CHECK(mx_set_error_handler(MX_ERRORS_ARE_FATAL) == say_busy);
	CHECK(mx_set_error_handler(MX_ERRORS_RETURN) == MX_ERRORS_ARE_FATAL);
	how = again("fatal");
	CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 255);
	CHECK(MX_ERRORS_RETURN("text", MX_TIMEOUT) == MX_TIMEOUT);
}

void test_endpoints(void)
{
	mx_endpoint_t one, two, three;
	mx_endpoint_addr_t address;
	uint64_t of;
	uint32_t id, most;
	mx_param_t parameter[2];
	OK(mx_get_info(NULL, MX_MAX_NATIVE_ENDPOINTS, NULL, 0, &most, sizeof most));
	OK(mx_open_endpoint(0, 5, KEY, NULL, 0, &one));
	OK(mx_get_endpoint_addr(one, &address));
	OK(mx_decompose_endpoint_addr(address, &of, &id));
	CHECK(id == 5);
	OK(mx_board_number_to_nic_id(0, &nic));
	CHECK(of == nic);
	RETURNS(mx_open_endpoint(0, 5, KEY, NULL, 0, &two), MX_BUSY);
	RETURNS(mx_open_endpoint(MX_ANY_NIC, 5, KEY, NULL, 0, &two), MX_BUSY);
	/* The first that is free. */
	OK(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, KEY, NULL, 0, &two));
	OK(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &three));
	CHECK(one != two && two != three);
	OK(mx_close_endpoint(two));
	OK(mx_close_endpoint(three));
	OK(mx_close_endpoint(one));
	RETURNS(mx_close_endpoint(one), MX_BAD_ENDPOINT);
	OK(mx_open_endpoint(0, 5, KEY, NULL, 0, &two));
	CHECK(two != one);
	RETURNS(mx_close_endpoint(one), MX_BAD_ENDPOINT);
	OK(mx_close_endpoint(two));
	/* What cannot be. */
	RETURNS(mx_open_endpoint(999, 0, KEY, NULL, 0, &one), MX_BOARD_UNKNOWN);
	RETURNS(mx_open_endpoint(0, most, KEY, NULL, 0, &one), MX_BAD_ENDPOINT);
	OK(mx_open_endpoint(0, most - 1, KEY, NULL, 0, &one));
	OK(mx_close_endpoint(one));
	RETURNS(mx_open_endpoint(0, 0, KEY, NULL, 0, NULL), MX_BAD_ENDPOINT);
	RETURNS(mx_open_endpoint(0, 0, KEY, NULL, 1, &one), MX_BAD_PARAM_LIST);
	memset(parameter, 0, sizeof parameter);
	parameter[0].key = MX_PARAM_UNEXP_QUEUE_MAX;
	parameter[0].val.unexp_queue_max = 1 << 20;
	parameter[1].key = (mx_param_key_t)3;
	RETURNS(mx_open_endpoint(0, 0, KEY, parameter, 2, &one), MX_BAD_PARAM_NAME);
	parameter[1].key = MX_PARAM_CONTEXT_ID;
	parameter[1].val.context_id.bits = 17;
	RETURNS(mx_open_endpoint(0, 0, KEY, parameter, 2, &one), MX_BAD_PARAM_VAL);
	parameter[1].val.context_id.bits = 16;
	parameter[1].val.context_id.shift = 49;
	RETURNS(mx_open_endpoint(0, 0, KEY, parameter, 2, &one), MX_BAD_PARAM_VAL);
	parameter[1].val.context_id.shift = 48;
	OK(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, parameter, 2, &one));
	OK(mx_close_endpoint(one));
}

void test_names(void)
{
	char name[MX_MAX_HOSTNAME_LEN], machine[MX_MAX_HOSTNAME_LEN];
	uint64_t id;
	uint32_t board, boards;
	OK(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &boards, sizeof boards));
	for (uint32_t i = 0; i < boards; i++) {
		OK(mx_board_number_to_nic_id(i, &id));
		OK(mx_nic_id_to_board_number(id, &board));
		CHECK(board == i);
		memset(name, 'x', sizeof name);
		OK(mx_nic_id_to_hostname(id, name));
		CHECK(memchr(name, 0, sizeof name) != NULL && strrchr(name, ':') != NULL);
		CHECK((uint32_t)atoi(strrchr(name, ':') + 1) == i);
		OK(mx_hostname_to_nic_id(name, &nic));
		CHECK(nic == id);
	}
	/* A machine is its first board. */
	OK(mx_board_number_to_nic_id(0, &id));
	OK(mx_nic_id_to_hostname(id, machine));
	*strrchr(machine, ':') = 0;
	nic = 0;
	OK(mx_hostname_to_nic_id(machine, &nic));
	CHECK(nic == id);
	RETURNS(mx_board_number_to_nic_id(boards, &id), MX_BOARD_UNKNOWN);
	RETURNS(mx_nic_id_to_board_number(0x123456789abc, &board), MX_NIC_NOT_FOUND);
	RETURNS(mx_nic_id_to_hostname(0x123456789abc, name), MX_NIC_NOT_FOUND);
	RETURNS(mx_hostname_to_nic_id("there is no such machine:7", &id), MX_HOST_NOT_FOUND);
	RETURNS(mx_hostname_to_nic_id(NULL, &id), MX_BAD_HOSTNAME_ARGS);
}

void test_info(void)
{
	uint32_t number, boards, count, board = 0, none = 999;
	uint8_t byte = 0;
	uint64_t ids[64];
	char text[MX_MAX_STR_LEN];
	char *labels;
	uint32_t *values;
	OK(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &boards, sizeof boards));
	CHECK(boards >= 1 && boards < 64);
	memset(ids, 0xff, sizeof ids);
	OK(mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, (boards + 1) * 8));
	CHECK(ids[0] == nic && ids[boards] == 0);
	RETURNS(mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, boards * 8), MX_BAD_INFO_LENGTH);
	OK(mx_get_info(a, MX_MAX_NATIVE_ENDPOINTS, NULL, 0, &number, sizeof number));
	CHECK(number >= 8 && number <= 256);
	OK(mx_get_info(NULL, MX_NATIVE_REQUESTS, NULL, 0, &number, sizeof number));
	CHECK(number >= 65536);
	OK(mx_get_info(NULL, MX_PIO_SEND_MAX, NULL, 0, &number, sizeof number));
	CHECK(number == 128);
	OK(mx_get_info(NULL, MX_COPY_SEND_MAX, NULL, 0, &number, sizeof number));
	CHECK(number >= 4096);
	OK(mx_get_info(NULL, MX_COUNTERS_COUNT, NULL, 0, &count, sizeof count));
	CHECK(count > 10);
	labels = malloc(count * MX_MAX_STR_LEN);
	values = malloc(count * sizeof *values);
	OK(mx_get_info(NULL, MX_COUNTERS_LABELS, NULL, 0, labels, count * MX_MAX_STR_LEN));
	RETURNS(mx_get_info(NULL, MX_COUNTERS_LABELS, NULL, 0, labels, 7), MX_BAD_INFO_LENGTH);
	for (uint32_t i = 0; i < count; i++)
		CHECK(labels[i * MX_MAX_STR_LEN] != 0 && labels[(i + 1) * MX_MAX_STR_LEN - 1] == 0);
	OK(mx_get_info(NULL, MX_COUNTERS_VALUES, &board, sizeof board, values, count * 4));
	number = 0;
	for (uint32_t i = 0; i < count; i++)
		number += values[i];
	CHECK(number != 0);
	free(labels);
	free(values);
	for (int key = MX_PRODUCT_CODE; key <= MX_SERIAL_NUMBER; key++) {
		OK(mx_get_info(NULL, (mx_get_info_key_t)key, &board, sizeof board, text, sizeof text));
		CHECK(memchr(text, 0, sizeof text) != NULL && text[0]);
		RETURNS(mx_get_info(NULL, (mx_get_info_key_t)key, &board, sizeof board, text, 1),
		    MX_BAD_INFO_LENGTH);
	}
	OK(mx_get_info(NULL, MX_PORT_COUNT, &board, sizeof board, &number, sizeof number));
	CHECK(number == 1);
	OK(mx_get_info(NULL, MX_PORT_COUNT, &byte, 1, &number, sizeof number));
	OK(mx_get_info(a, MX_PORT_COUNT, NULL, 0, &number, sizeof number));
	OK(mx_get_info(NULL, MX_NUMA_NODE, &board, sizeof board, &number, sizeof number));
	OK(mx_get_info(NULL, MX_NET_TYPE, &board, sizeof board, &number, sizeof number));
	CHECK(number == MX_NET_ETHER);
	OK(mx_get_info(NULL, MX_LINE_SPEED, &board, sizeof board, &number, sizeof number));
	CHECK(number == MX_SPEED_OPEN_MX);
	RETURNS(mx_get_info(NULL, MX_LINE_SPEED, &none, sizeof none, &number, sizeof number),
	    MX_BAD_INFO_VAL);
	RETURNS(mx_get_info(NULL, MX_LINE_SPEED, NULL, 0, &number, sizeof number), MX_BAD_INFO_VAL);
	RETURNS(mx_get_info(NULL, MX_LINE_SPEED, &board, 0, &number, sizeof number),
	    MX_BAD_INFO_LENGTH);
	RETURNS(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, NULL, 4), MX_BAD_INFO_VAL);
	RETURNS(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &number, 3), MX_BAD_INFO_LENGTH);
	RETURNS(mx_get_info(NULL, (mx_get_info_key_t)0, NULL, 0, &number, 4), MX_BAD_INFO_KEY);
	RETURNS(mx_get_info(NULL, (mx_get_info_key_t)17, NULL, 0, &number, 4), MX_BAD_INFO_KEY);
}
