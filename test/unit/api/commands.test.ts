import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { command, type CommandInput } from '../../../src/contract/commands.ts'
import { AgentWorld, inferenceService } from '../../support/agent-world.ts'
import { eventually } from '../../support/eventually.ts'
import { KubeSim } from '../../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../../support/running-agent.ts'

/** What commands leave behind, wherever it is kept. */
interface State {
  readonly suspended: boolean
  readonly hold: string | undefined
  readonly paused: boolean
  readonly startupStallMs: number
}

type Ask = (service: { namespace: string; name: string }) => CommandInput

interface Move {
  readonly text: string
  readonly ask: Ask
  /** The same, as one would say it of a single client. */
  readonly apply: (state: State) => State
}

const hold = (cause: string) => (state: State) => ({ ...state, hold: state.hold ?? cause })
const moves: readonly Move[] = [
  { text: 'stop', ask: (service) => ({ name: 'stop', service }), apply: (state) => ({ ...state, suspended: true }) },
  { text: 'stop here', ask: (service) => ({ name: 'stop', service, scope: 'here' }), apply: hold('stopped') },
  {
    text: 'start',
    ask: (service) => ({ name: 'start', service }),
    apply: (state) => ({ ...state, suspended: false, hold: undefined }),
  },
  { text: 'evict', ask: (service) => ({ name: 'evict', service }), apply: hold('evicted') },
  {
    text: 'bring back',
    ask: (service) => ({ name: 'bringBack', service }),
    apply: (state) => ({ ...state, hold: undefined }),
  },
  { text: 'pause', ask: () => ({ name: 'pauseNode' }), apply: (state) => ({ ...state, paused: true }) },
  { text: 'resume', ask: () => ({ name: 'resumeNode' }), apply: (state) => ({ ...state, paused: false }) },
  ...[5_000, 6_000].map((startupStallMs) => ({
    text: `stall ${startupStallMs}`,
    ask: (): CommandInput => ({ name: 'updateSettings', settings: { startupStallMs } }),
    apply: (state: State) => ({ ...state, startupStallMs }),
  })),
]

const started: State = { suspended: false, hold: undefined, paused: false, startupStallMs: 60_000 }

/** Every way in which two clients' commands may have come one after the other. */
function orders(left: readonly Move[], right: readonly Move[]): (readonly Move[])[] {
  const [first, ...restLeft] = left
  const [second, ...restRight] = right
  if (first === undefined) return [right]
  if (second === undefined) return [left]
  return [
    ...orders(restLeft, right).map((rest) => [first, ...rest]),
    ...orders(left, restRight).map((rest) => [second, ...rest]),
  ]
}

let sim: KubeSim
let world: AgentWorld
let agent: RunningAgent
let count = 0

beforeAll(async () => {
  sim = await KubeSim.start()
  world = await AgentWorld.open(sim.connection(), { controller: false })
  // A runtime that is refused: no server, so that the state is all there is.
  await world.applyModel('model')
  agent = await world.startAgent()
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await sim[Symbol.asyncDispose]()
})

const run = (input: CommandInput, requestId = randomUUID()) =>
  agent.agent.command({ requestId, command: command.parse(input) })

interface Manner {
  /** Each waits for the answer before, as a person does; or all at once, as a script may. */
  readonly waits: boolean
  /** Each is sent again, as a client does that lost its connection. */
  readonly repeats: boolean
}

async function client(asked: readonly Move[], service: { namespace: string; name: string }, manner: Manner) {
  const outcomes: string[] = []
  const askOnce = async ({ ask }: Move) => {
    const id = randomUUID()
    const answers = await Promise.all([run(ask(service), id), ...(manner.repeats ? [run(ask(service), id)] : [])])
    outcomes.push(...answers.map(({ outcome }) => outcome))
  }
  if (manner.waits) for (const move of asked) await askOnce(move)
  else await Promise.all(asked.map(askOnce))
  expect(outcomes.filter((outcome) => outcome !== 'done')).toEqual([])
}

async function stateOf(name: string): Promise<State> {
  const spec = (await world.admin.get(inferenceService(name)))?.['spec']
  const settings = await agent.agent.query({ name: 'settings' })
  const stall =
    'settings' in settings ? settings.settings.find((one) => one.name === 'startupStallMs')?.value : undefined
  return {
    suspended: typeof spec === 'object' && spec !== null && 'suspend' in spec && spec.suspend === true,
    hold: agent.view(name)?.hold?.cause,
    paused: agent.snapshot.host.paused,
    startupStallMs: Number(stall),
  }
}

const sequence = fc.array(fc.constantFrom(...moves), { maxLength: 5 })
const manner = fc.record({ waits: fc.boolean(), repeats: fc.boolean() })

test(
  'any commands of two clients, some sent twice, end in a state that one serial order explains',
  { timeout: 300_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(sequence, sequence, manner, manner, async (left, right, leftManner, rightManner) => {
        const name = `s${(count += 1)}`
        const service = { namespace: world.namespace, name }
        await run({ name: 'resumeNode' })
        await run({ name: 'updateSettings', settings: { startupStallMs: null } })
        await world.applyService(name, { modelRef: 'model', spec: { runtime: 'vllm' } })
        await agent.until(name, () => true)
        // Another client writes the object all the time.
        const meddling = [1, 2, 3].map((at) =>
          world.admin.patch(inferenceService(name), { metadata: { annotations: { meddler: String(at) } } }),
        )
        await Promise.all([client(left, service, leftManner), client(right, service, rightManner), ...meddling])
        const explained = orders(left, right).map((order) => order.reduce((state, { apply }) => apply(state), started))
        expect(explained).toContainEqual(await stateOf(name))
        await world.deleteService(name)
        await eventually(() => agent.view(name) === undefined)
      }),
      { numRuns: 25 },
    )
  },
)
