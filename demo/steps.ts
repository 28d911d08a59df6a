import type { AgentDoor } from '../src/serve/agent-door.ts'
import { formatBytes } from '../src/contract/format.ts'
import { stepNames, type Progress, type ServiceView, type StepName } from '../src/contract/service.ts'

const words: Record<StepName, string> = {
  fetched: 'model fetched',
  started: 'server started',
  healthy: 'server answers',
  published: 'address published',
  clusterAgrees: 'cluster says Ready',
}
/** What no waiting mends in a demo. */
const hopeless = new Set<ServiceView['reason']>([
  'Refused',
  'ServiceNameTaken',
  'NoHostAddress',
  'CrashLooping',
  'FetchFailed',
])
const memoryReasons = new Set<ServiceView['reason']>(['InsufficientMemory', 'MemoryCheckFailed', 'MemoryPressure'])
const progressEveryShare = 0.2

/** Tells every step of the named services as it is reached; resolves when all of them are done, fails when one cannot be. */
export async function tellSteps(
  agent: Pick<AgentDoor, 'get' | 'subscribe'>,
  names: readonly string[],
  say: (text: string) => void,
): Promise<void> {
  const startedAt = Date.now()
  const told = new Map<string, Set<string>>(names.map((name) => [name, new Set()]))
  const line = (name: string, text: string): void => {
    const seconds = ((Date.now() - startedAt) / 1_000).toFixed(1).padStart(5)
    say(`${seconds} s  ${name.padEnd(8)} ${text}`)
  }
  const once = (service: ServiceView, what: string, text: string): void => {
    const said = told.get(service.name)
    if (!said || said.has(what)) return
    said.add(what)
    line(service.name, text)
  }
  const { promise, resolve, reject } = Promise.withResolvers<undefined>()
  const look = (): void => {
    const { services: all, figures } = agent.get()
    const services = all.filter(({ name }) => told.has(name))
    for (const service of services) {
      if (hopeless.has(service.reason)) reject(new Error(`${service.name}: ${service.message}`))
      if (service.state === 'waiting') once(service, service.message, service.message)
      tellProgress(service, figures[service.uid]?.progress, once)
      for (const step of stepNames) {
        if (service.steps[step].status === 'done') once(service, step, words[step] + detail(service, step))
      }
      if (service.steps.healthy.status === 'active') once(service, 'loading', 'server is loading the model')
    }
    const isDone =
      services.length === names.length && services.every(({ steps }) => steps.clusterAgrees.status === 'done')
    if (isDone) resolve(undefined)
  }
  const unsubscribe = agent.subscribe(() => queueMicrotask(look))
  look()
  await promise.finally(unsubscribe)
}

/** Tells why there is no memory for the named service, in the agent's own words. */
export async function tellWhyItWaits(
  agent: Pick<AgentDoor, 'get' | 'subscribe'>,
  name: string,
  say: (text: string) => void,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>()
  const look = (): void => {
    const service = agent.get().services.find((one) => one.name === name)
    if (!service) return
    if (hopeless.has(service.reason)) reject(new Error(`${name}: ${service.message}`))
    if (service.steps.started.status === 'done') reject(new Error(`${name} was started, though it cannot fit.`))
    if (!memoryReasons.has(service.reason)) return
    say(`  ${name} waits. ${service.message}`)
    resolve(undefined)
  }
  const unsubscribe = agent.subscribe(() => queueMicrotask(look))
  look()
  await promise.finally(unsubscribe)
}

function tellProgress(
  service: ServiceView,
  progress: Progress | undefined,
  once: (service: ServiceView, what: string, text: string) => void,
): void {
  if (progress?.message !== undefined) once(service, progress.message, progress.message)
  if (progress?.totalBytes === undefined || progress.totalBytes === 0) return
  const share = progress.doneBytes / progress.totalBytes
  const mark = Math.floor(share / progressEveryShare)
  const [done, total] = [formatBytes(progress.doneBytes), formatBytes(progress.totalBytes)]
  once(service, `progress ${mark}`, `downloading ${Math.round(share * 100)} % (${done} of ${total})`)
}

function detail({ pid, port, address }: ServiceView, step: StepName): string {
  if (step === 'started' && pid !== undefined) return ` (process ${pid})`
  if (step === 'published' && address !== undefined && port !== undefined) return ` (${address}:${port})`
  return ''
}
