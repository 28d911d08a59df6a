import { powerLine } from '../src/contract/power.ts'
import type { AgentSnapshot } from '../src/contract/snapshot.ts'
import type { AgentDoor } from '../src/serve/agent-door.ts'

/** The window looks every two seconds; a server that tells nothing by then tells nothing. */
const patienceMs = 10_000

type Door = Pick<AgentDoor, 'get' | 'subscribe'>

/** Looks as a window does, since nothing is measured while nobody looks, and answers when the server's counters were read once. */
export async function lookAt(agent: Door, name: string): Promise<Disposable> {
  const leave = agent.subscribe(() => undefined, 'window')
  await until(agent, (snapshot) => runtimeOf(snapshot, name) !== undefined)
  return { [Symbol.dispose]: leave }
}

/** Tells tokens per second and watts as the agent knows them after a request. */
export async function tellFigures(agent: Door, name: string, say: (text: string) => void): Promise<void> {
  await until(agent, (snapshot) => {
    const runtime = runtimeOf(snapshot, name)
    const hasRate = runtime?.generatedTokensPerSecond !== undefined || runtime?.state === 'notReported'
    return hasRate && snapshot.powerFigures !== undefined
  })
  const { power, powerFigures, ...snapshot } = agent.get()
  const rate = runtimeOf(snapshot, name)?.generatedTokensPerSecond
  say(`  tokens/s: ${rate === undefined ? 'not reported' : `${rate} while ${name} generated, as its server counted`}`)
  if (power) say(`  watts: ${powerLine(power, powerFigures)}`)
}

const runtimeOf = ({ services, figures }: Pick<AgentSnapshot, 'services' | 'figures'>, name: string) => {
  const uid = services.find((service) => service.name === name)?.uid
  return uid === undefined ? undefined : figures[uid]?.runtime
}

/** Returns also when it takes too long: what is not known by then is told as such. */
async function until(agent: Door, isSo: (snapshot: AgentSnapshot) => boolean): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const look = (): void => {
    if (isSo(agent.get('icon'))) resolve(undefined)
  }
  const leave = agent.subscribe(() => queueMicrotask(look), 'icon')
  const limit = setTimeout(() => resolve(undefined), patienceMs)
  look()
  await promise
  clearTimeout(limit)
  leave()
}
