"""The official Python MCP client against `althing mcp`.

    mcp_client.py stdio PROGRAM [ARGUMENT...]        mcp_client.py http URL TOKEN

Prints one JSON object with what it saw.
"""
import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def transport():
    if sys.argv[1] == "stdio":
        return StdioServerParameters(command=sys.argv[2], args=sys.argv[3:])
    url, token = sys.argv[2:4]
    headers = {"Authorization": f"Bearer {token}"}
    return streamable_http_client(url, http_client=httpx2.AsyncClient(headers=headers, timeout=60))


async def main():
    progress = []

    async def told(step, total, message):
        progress.append(message)

    async with Client(transport()) as client:
        tools = await client.list_tools()
        run = await client.call_tool("launch_run", {"task": "Compare two ways to sort"}, progress_callback=told)
        run_id = run.structured_content["run_id"]
        again = await client.call_tool("run_result", {"run_id": run_id})
        resource = await client.read_resource(f"althing://runs/{run_id}/result")
        print(json.dumps({
            "tools": [tool.name for tool in tools.tools],
            "result": run.structured_content,
            "again": again.structured_content,
            "resource": json.loads(resource.contents[0].text),
            "progress": progress,
        }))


asyncio.run(main())
