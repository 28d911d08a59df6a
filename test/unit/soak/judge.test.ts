import { describe, expect, test } from 'vitest'
import { judge, type SeenProcess, type SeenService } from '../../soak/judge.ts'
import { Patience } from '../../soak/patience.ts'

describe('judge', () => {
  const server: SeenProcess = {
    pid: 10,
    agent: 'first',
    size: 2048,
    model: '/red.gguf',
    port: 8001,
    listens: true,
  }
  const serving: SeenService = {
    name: 'red',
    ready: { port: 8001, holder: 'first' },
    processes: [server],
    mayChange: false,
    statusWrites: 30,
    events: 0,
  }
  const rules = (change: Partial<SeenService>) => judge([{ ...serving, ...change }]).map(({ rule }) => rule)

  test('a service with its server and a ready slice at its port is right, and so is one with neither', () => {
    expect(rules({})).toEqual([])
    expect(judge([{ name: 'red', processes: [], mayChange: false, statusWrites: 0, events: 0 }])).toEqual([])
  })

  test.each([
    ['no server at all', []],
    ['a server that does not listen yet', [{ ...server, listens: false }]],
    ['a server at another port', [{ ...server, port: 8002 }]],
  ])('a slice that says ready is wrong with %s', (_what, processes) => {
    expect(rules({ processes })).toEqual(['listener'])
  })

  test('the sentence names the port, and where the servers are', () => {
    expect(judge([{ ...serving, processes: [{ ...server, port: 8002 }] }])).toEqual([
      {
        rule: 'listener',
        service: 'red',
        duty: 'first',
        sentence: 'The slice of red says ready at port 8001, where no server of it listens; its servers: 10 on 8002.',
      },
    ])
  })

  test('two servers are right only where one may follow the other, and three never are', () => {
    const second = { ...server, pid: 11, port: 8002 }
    expect(rules({ processes: [server, second] })).toEqual(['one process'])
    expect(rules({ processes: [server, second], mayChange: true })).toEqual([])
    expect(rules({ processes: [server, second, { ...second, pid: 12 }], mayChange: true })).toEqual(['one process'])
  })

  test('each of two agents may have a server while the claim moves', () => {
    expect(rules({ processes: [server, { ...server, pid: 11, agent: 'second', port: 8002 }] })).toEqual([])
  })

  test('thirty-one writes of a status in a minute are too many, and two more for each thing that happened are not', () => {
    expect(rules({ statusWrites: 31 })).toEqual(['status writes'])
    expect(rules({ statusWrites: 32, events: 1 })).toEqual([])
    expect(rules({ statusWrites: 33, events: 1 })).toEqual(['status writes'])
  })
})

describe('judge, of what Ollama serves', () => {
  const serving: SeenService = {
    ...{ name: 'violet', ready: { port: 8001, holder: 'first' }, processes: [] },
    ...{ inDaemon: ['first'], mayChange: false, statusWrites: 0, events: 0 },
  }

  test('it is published only while it is in memory, of which no process tells', () => {
    expect(judge([serving])).toEqual([])
    expect(judge([{ ...serving, inDaemon: ['second'] }])).toMatchObject([
      { rule: 'loaded', duty: 'first', patienceMs: 10_000 },
    ])
    const { ready: _, ...withdrawn } = serving
    expect(judge([{ ...withdrawn, inDaemon: [] }])).toEqual([])
  })

  test('what it drops by itself shows at the next look, for which an agent has ten seconds', () => {
    const patience = new Patience()
    const dropped = judge([{ ...serving, inDaemon: [] }])
    const told = Array.from({ length: 110 }, (_, look) => patience.see(dropped, { at: look * 100, canAct: () => true }))
    expect(told.map(({ length }) => length).indexOf(1)).toBe(101)
  })
})
