"""How a client of the tests reaches its server: `stdio PROGRAM [ARGUMENT...]`, or `http URL TOKEN`."""
import sys

import httpx2
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def transport():
    if sys.argv[1] == "stdio":
        return StdioServerParameters(command=sys.argv[2], args=sys.argv[3:])
    url, token = sys.argv[2:4]
    headers = {"Authorization": f"Bearer {token}"}
    return streamable_http_client(url, http_client=httpx2.AsyncClient(headers=headers, timeout=60))
