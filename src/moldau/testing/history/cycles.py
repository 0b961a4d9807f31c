"""Cycles of transactions, in which each one read a record of the next, or wrote before it.

A transaction comes after another if it read a record of it, or if its process polled one since its last transaction. In
Kafka the writes of concurrent transactions interleave, so the order of writes counts only if the writers promise to run
one after the other (Elle's `ww` and `wr`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from moldau.testing.history.evidence import Evidence
from moldau.testing.history.findings import Kind, Report
from moldau.testing.history.logs import Transaction


class Edge(msgspec.Struct, frozen=True):
    """`line`: the line of the poll; 0 if the edge is an order of writes."""

    target: int
    line: int
    words: str


Graph = dict[int, list[Edge]]


def judge_cycles(evidence: Evidence, report: Report, *, are_writes_isolated: bool) -> set[int]:
    """Returns the lines of the polls that are part of a cycle."""
    reads = _reads(evidence)
    writes = _writes(evidence) if are_writes_isolated else {}
    explained: set[int] = set()
    in_circles: set[int] = set()
    for kind, graph in ((Kind.WRITE_CYCLE, writes), (Kind.CIRCULAR_FLOW, _united(reads, writes))):
        for component in components(graph):
            if in_circles.isdisjoint(component):
                in_circles |= component
                circle = shortest_circle(graph, component)
                transactions = [evidence.transactions[index] for index, _ in circle]
                words = ", which ".join(f"{edge.words} {evidence.transactions[edge.target]}" for _, edge in circle)
                polls = [edge.line for _, edge in circle]
                explained |= {edge.line for index in component for edge in graph[index] if edge.target in component}
                report.add(kind, f"{transactions[0]} {words}", *_lines(transactions), *polls)
    return explained


def _lines(transactions: list[Transaction]) -> Iterator[int]:
    for transaction in transactions:
        yield from (transaction.begin_line, transaction.commit_line, transaction.end_line)


def _united(*graphs: Graph) -> Graph:
    return {
        index: [edge for graph in graphs for edge in graph.get(index, [])]
        for index in dict.fromkeys(index for graph in graphs for index in graph)
    }


def _reads(evidence: Evidence) -> Graph:
    graph: Graph = {}
    for index, transaction in enumerate(evidence.transactions):
        for source, line in transaction.read_from.items():
            if source != index and not transaction.is_aborted and not evidence.transactions[source].is_aborted:
                graph.setdefault(source, []).append(Edge(index, line, "was read by"))
    return graph


def _writes(evidence: Evidence) -> Graph:
    """The edges between neighbours in a partition. All other orders of writes follow from these."""
    edges: dict[tuple[int, int], Edge] = {}
    for log in evidence.logs():
        before = None
        for slot in log.slots():
            index = evidence.sends.transactions[evidence.sends.writer(slot.send, log.partition, slot.offset)]
            if index < 0 or not evidence.transactions[index].is_committed:
                continue
            if before is not None and before != index:
                edges.setdefault((before, index), Edge(index, 0, f"wrote to {log} before"))
            before = index
    graph: Graph = {}
    for (source, _), edge in edges.items():
        graph.setdefault(source, []).append(edge)
    return graph


def components(graph: Graph) -> Iterator[set[int]]:
    """The strongly connected components of more than one node (Tarjan's algorithm, without recursion)."""
    numbers: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in graph:
        if root in numbers:
            continue
        work = [(root, iter(graph[root]))]
        numbers[root] = lowest[root] = len(numbers)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, edges = work[-1]
            for edge in edges:
                target = edge.target
                if target not in numbers:
                    numbers[target] = lowest[target] = len(numbers)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph.get(target, []))))
                    break
                if target in on_stack:
                    lowest[node] = min(lowest[node], numbers[target])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == numbers[node]:
                    component = set[int]()
                    while node not in component:
                        component.add(stack.pop())
                    on_stack -= component
                    if len(component) > 1:
                        yield component


def shortest_circle(graph: Graph, component: set[int]) -> list[tuple[int, Edge]]:
    """The shortest path from the component's first transaction back to it, as nodes with their outgoing edges."""
    start = min(component)
    came: dict[int, tuple[int, Edge]] = {}
    queue = deque([start])
    while start not in came:
        node = queue.popleft()
        for edge in graph[node]:
            if edge.target in component and edge.target not in came:
                came[edge.target] = node, edge
                queue.append(edge.target)
    circle = [came[start]]
    while circle[-1][0] != start:
        circle.append(came[circle[-1][0]])
    return circle[::-1]
