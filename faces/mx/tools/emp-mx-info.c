/* emp-mx-info: the boards of this machine as programs for MX see them, and what is known of another one. */
#include "common.h"

static uint32_t of_board(mx_get_info_key_t key, uint32_t board)
{
	uint32_t value = 0;
	must("asking", mx_get_info(NULL, key, &board, sizeof board, &value, sizeof value));
	return value;
}

static void text_of_board(const char *what, mx_get_info_key_t key, uint32_t board)
{
	char text[MX_MAX_STR_LEN];
	must("asking", mx_get_info(NULL, key, &board, sizeof board, text, sizeof text));
	printf("  %-12s %s\n", what, text);
}

static uint32_t of_library(mx_get_info_key_t key)
{
	uint32_t value = 0;
	must("asking", mx_get_info(NULL, key, NULL, 0, &value, sizeof value));
	return value;
}

static void print_id(uint64_t nic)
{
	printf("%02x:%02x:%02x:%02x:%02x:%02x", (unsigned)(nic >> 40) & 255, (unsigned)(nic >> 32) & 255,
	    (unsigned)(nic >> 24) & 255, (unsigned)(nic >> 16) & 255, (unsigned)(nic >> 8) & 255,
	    (unsigned)nic & 255);
}

static void show_board(uint32_t board)
{
	char name[MX_MAX_HOSTNAME_LEN];
	uint64_t nic;
	must("asking", mx_board_number_to_nic_id(board, &nic));
	must("asking", mx_nic_id_to_hostname(nic, name));
	printf("board %u: %s\n  %-12s ", board, name, "NIC id");
	print_id(nic);
	printf("\n");
	text_of_board("product", MX_PRODUCT_CODE, board);
	text_of_board("link", MX_PART_NUMBER, board);
	text_of_board("address", MX_SERIAL_NUMBER, board);
	printf("  %-12s %u\n", "NUMA node", of_board(MX_NUMA_NODE, board));
	printf("  %-12s %s\n", "network", of_board(MX_NET_TYPE, board) == MX_NET_ETHER ? "Ethernet" : "Myrinet");
}

static void show_remote(const char *host)
{
	uint64_t nic;
	char name[MX_MAX_HOSTNAME_LEN];
	must(host, mx_hostname_to_nic_id((char *)host, &nic));
	printf("%s: NIC id ", host);
	print_id(nic);
	if (mx_nic_id_to_hostname(nic, name) == MX_SUCCESS)
		printf(", calls itself %s\n", name);
	else
		printf(", no endpoint of it answers now\n");
}

int main(int count, char **arguments)
{
	uint32_t boards;
	tool = "emp-mx-info";
	if (count > 1 && arguments[1][0] == '-') {
		int help = strcmp(arguments[1], "-h") == 0 || strcmp(arguments[1], "--help") == 0;
		fprintf(stderr, "usage: emp-mx-info [HOST[:BOARD]...]\n\n"
			"Shows the boards of this machine, or what is known of others.\n");
		return help ? 0 : 2;
	}
	mx_set_error_handler(MX_ERRORS_RETURN);
	must("starting", mx_init());
	boards = of_library(MX_NIC_COUNT);
	if (count == 1) {
		printf("MX on EMP, interface version 0x%x: %u board%s, %u endpoints each\n", MX_API, boards,
		    boards == 1 ? "" : "s", of_library(MX_MAX_NATIVE_ENDPOINTS));
		for (uint32_t board = 0; board < boards; board++)
			show_board(board);
	}
	for (int i = 1; i < count; i++)
		show_remote(arguments[i]);
	must("ending", mx_finalize());
	return 0;
}
