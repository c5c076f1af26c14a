"""The official Python MCP client against `althing mcp`.

    mcp_client.py stdio PROGRAM [ARGUMENT...]        mcp_client.py http URL TOKEN

Prints one JSON object with what it saw.
"""
import asyncio
import json
import sys
from pathlib import Path

from mcp import Client, MCPError

sys.dont_write_bytecode = True  # Nothing is left among the sources.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "mcp" / "tests"))
from transport import transport


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
        resources = await client.list_resources()
        try:
            await client.read_resource(f"althing://runs/{run_id}/workspace")
            refused = None
        except MCPError as error:
            refused = str(error)
        print(json.dumps({
            "tools": [tool.name for tool in tools.tools],
            "result": run.structured_content,
            "again": again.structured_content,
            "resources": [str(resource.uri) for resource in resources.resources],
            "refused": refused,
            "resource": json.loads(resource.contents[0].text),
            "progress": progress,
        }))


asyncio.run(main())
