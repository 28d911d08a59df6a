import { describe, expect, test } from 'vitest'
import { Blockage } from '../../soak/blockage.ts'
import { Ends } from '../../soak/ends.ts'
import { type AgentName, fault, touched } from '../../soak/faults.ts'
import { halve } from '../../soak/halving.ts'
import { type Finding, judge, type SeenProcess, type SeenService } from '../../soak/judge.ts'
import { lateMs, Patience, patienceMs } from '../../soak/patience.ts'
import { rounds, schedule } from '../../soak/schedule.ts'
import { Touches } from '../../soak/touches.ts'

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

describe('ends', () => {
  const red = { pid: 10, service: 'red' } as const

  function room() {
    const touches = new Touches({ aftermathMs: 1_000 })
    return { touches, ends: new Ends(touches) }
  }

  test('a server that ends although nothing was done to its service is told', () => {
    const { touches, ends } = room()
    touches.begin(['sky-blue'])
    expect(ends.see([red], 0)).toEqual([])
    expect(ends.see([red], 100)).toEqual([])
    expect(ends.see([], 200)).toEqual(['Server 10 of red ended, and nothing had been done to red.'])
    expect(ends.see([], 300)).toEqual([])
  })

  test('what is being done to it, was done while it lived, or shortly before it ended, explains it', () => {
    const during = room()
    during.ends.see([red], 0)
    during.touches.begin(['red'])
    expect(during.ends.see([], 100)).toEqual([])

    const lately = room()
    lately.ends.see([red], 0)
    lately.touches.begin(['red'])
    lately.touches.end(['red'], 100)
    expect(lately.ends.see([], 50_000)).toEqual([])

    const before = room()
    before.touches.begin(['red'])
    before.touches.end(['red'], 0)
    before.ends.see([red], 500)
    expect(before.ends.see([], 900)).toEqual([])
  })

  test('what was done before everything was as it should be explains nothing', () => {
    const { touches, ends } = room()
    ends.see([red], 0)
    touches.begin(['red'])
    touches.end(['red'], 100)
    touches.settle()
    expect(ends.see([], 200)).toHaveLength(1)
  })
})

describe('patience', () => {
  const beatMs = 50
  const wrong: Finding = { rule: 'listener', service: 'red', duty: 'first', sentence: 'It is wrong.' }
  const counted: Finding = { rule: 'status writes', service: 'red', sentence: 'They are too many.' }

  type CanAct = (agent: AgentName) => boolean
  const anybody: CanAct = () => true
  const nobody: CanAct = () => false

  /** Looks on the beat for so long. */
  function looks(
    patience: Patience,
    from: number,
    forMs: number,
    findings: readonly Finding[],
    canAct: CanAct = anybody,
  ) {
    const moments = Array.from({ length: forMs / beatMs + 1 }, (_, beat) => from + beat * beatMs)
    return moments.flatMap((at) => patience.see(findings, { at, canAct }))
  }

  test('what is wrong for two seconds is not told, and once it lasts longer it is told once', () => {
    const patience = new Patience()
    expect(looks(patience, 0, patienceMs, [wrong])).toEqual([])
    expect(looks(patience, patienceMs + beatMs, 5_000, [wrong])).toEqual([wrong])
  })

  test('what is right in between begins anew', () => {
    const patience = new Patience()
    expect(looks(patience, 0, 1_500, [wrong])).toEqual([])
    expect(looks(patience, 1_550, 0, [])).toEqual([])
    expect(looks(patience, 1_600, 1_500, [wrong])).toEqual([])
  })

  test('time in which the agent cannot act does not count, and the time before it neither', () => {
    const patience = new Patience()
    looks(patience, 0, 1_500, [wrong])
    expect(looks(patience, 1_550, 10_000, [wrong], nobody)).toEqual([])
    expect(looks(patience, 11_600, 1_500, [wrong])).toEqual([])
  })

  test('it is up to the agent that has the duty', () => {
    const patience = new Patience()
    const onlySecond: CanAct = (agent) => agent === 'second'
    expect(looks(patience, 0, 10_000, [wrong], onlySecond)).toEqual([])
    const others: Finding = { ...wrong, duty: 'second' }
    expect(looks(patience, 20_000, 10_000, [others], onlySecond)).toEqual([others])
  })

  test('a look that comes late does not count: the machine starved', () => {
    const patience = new Patience()
    const late = Array.from({ length: 100 }, (_, look) => look * (lateMs + 1))
    expect(late.flatMap((at) => patience.see([wrong], { at, canAct: anybody }))).toEqual([])
  })

  test('what nobody can put right later is told at once, and once', () => {
    expect(looks(new Patience(), 0, 1_000, [counted], nobody)).toEqual([counted])
  })
})

describe('blockage', () => {
  test('after an obstacle the agent has as long again to come back from its back-off, two seconds at least', () => {
    const blockage = new Blockage()
    expect(blockage.isClear(0)).toBe(true)
    blockage.begin(1_000)
    expect(blockage.isClear(5_000)).toBe(false)
    blockage.end(6_000)
    expect([blockage.isClear(10_999), blockage.isClear(11_000)]).toEqual([false, true])
    blockage.begin(20_000)
    blockage.end(20_100)
    expect([blockage.isClear(22_099), blockage.isClear(22_100)]).toEqual([false, true])
  })

  test('what is tried again every second has a second and a half to come back, however long the obstacle was there', () => {
    const blockage = new Blockage()
    expect(blockage.isUrgentlyClear(0)).toBe(true)
    blockage.begin(1_000)
    expect(blockage.isUrgentlyClear(5_000)).toBe(false)
    blockage.end(60_000)
    expect([blockage.isUrgentlyClear(61_499), blockage.isUrgentlyClear(61_500)]).toEqual([false, true])
  })

  test('obstacles at the same time, or close after another, count as one', () => {
    const blockage = new Blockage()
    blockage.begin(0)
    blockage.begin(2_000)
    blockage.end(3_000)
    expect(blockage.isClear(20_000)).toBe(false)
    blockage.end(4_000)
    blockage.begin(5_000)
    blockage.end(6_000)
    expect([blockage.isClear(11_999), blockage.isClear(12_000)]).toEqual([false, true])
  })

  test('no back-off is waited for longer than half a minute', () => {
    const blockage = new Blockage()
    blockage.begin(0)
    blockage.end(100_000)
    expect(blockage.isClear(130_000)).toBe(true)
  })
})

describe('halving', () => {
  const faults = Array.from({ length: 40 }, (_, index) => index)

  /** Broken where all of these are among the faults. */
  function machine(...needed: number[]) {
    const runs: (readonly number[])[] = []
    const breaks = (some: readonly number[]) => {
      runs.push(some)
      return Promise.resolve(needed.every((one) => some.includes(one)))
    }
    return { runs, breaks }
  }

  test.each([0, 17, 39])('one fault that does it alone is found (%i)', async (needed) => {
    const { breaks } = machine(needed)
    expect(await halve(faults, breaks)).toContain(needed)
    expect((await halve(faults, breaks)).length).toBeLessThanOrEqual(3)
  })

  test('two faults that are far apart stay together', async () => {
    const { breaks, runs } = machine(3, 35)
    expect(await halve(faults, breaks)).toEqual(faults)
    expect(runs.map(({ length }) => length)).toEqual([20, 20])
  })

  test('nothing is repeated more than ten times', async () => {
    const { breaks, runs } = machine(39)
    await halve(
      Array.from({ length: 5_000 }, (_, index) => index - 4_960),
      breaks,
    )
    expect(runs).toHaveLength(10)
  })

  test('what does not come again leaves all faults', async () => {
    expect(await halve(faults, () => Promise.resolve(false))).toEqual(faults)
    expect(await halve([5], () => Promise.resolve(true))).toEqual([5])
  })
})

describe('schedule', () => {
  const many = schedule({ seed: 7, count: 2_000 })

  test('the same seed plans the same faults, another one others', () => {
    expect(schedule({ seed: 7, count: 50 })).toEqual(schedule({ seed: 7, count: 50 }))
    expect(schedule({ seed: 8, count: 50 })).not.toEqual(schedule({ seed: 7, count: 50 }))
  })

  test('every kind of fault comes, and what is planned can be recorded and read again', () => {
    const kinds = new Set(many.map(({ what }) => what.kind))
    expect([...kinds].sort()).toEqual([
      'cutWatches',
      'deleteModel',
      'deletePublished',
      'dropModels',
      'edit',
      'editPublished',
      'evict',
      'fdLimit',
      'fillDisk',
      'hangDaemon',
      'holdEvicted',
      'killAgent',
      'killAgentInStart',
      'killApi',
      'killDaemon',
      'killGateway',
      'killServer',
      'memory',
      'moveNamespace',
      'newContent',
      'noAddress',
      'pause',
      'prune',
      'readOnlyDisk',
      'recreate',
      'refuse',
      'restart',
      'scaleToZero',
      'secondAgent',
      'stallApi',
      'stepClock',
      'stopGateway',
      'stopServer',
      'takeBackEdit',
      'takeClientPort',
      'terminateAgent',
      'twin',
      'updateAgent',
    ])
    const recorded: unknown = JSON.parse(JSON.stringify(many))
    expect(fault.array().parse(recorded)).toEqual(many)
  })

  test('nothing but an orderly end of the agent, or of its work for the namespace, may end the server of the steady service', () => {
    const touching = many.filter((one) => touched(one).includes('steady')).map(({ what }) => what.kind)
    expect(new Set(touching)).toEqual(new Set(['moveNamespace', 'terminateAgent']))
  })

  test('rounds hold every fault once, in order, the rest in the last', () => {
    expect(rounds([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]])
    expect(rounds([], 2)).toEqual([])
  })
})
