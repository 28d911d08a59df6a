import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { hostPlatform } from '../src/agent-core/platform/host.ts'
import { launchEnvironment } from '../src/agent-core/servers/launch.ts'
import { Ledger } from '../src/agent-core/servers/ledger.ts'
import { Servers } from '../src/agent-core/servers/servers.ts'
import { sampleServerPath } from '../test/support/sample-servers/sample.ts'
import { silentLog } from '../test/support/silent-log.ts'
import type { AgentProcess } from './agent-process.ts'
import { inferenceService, metalModel, servedBySample } from './objects.ts'
import { poll, secondsSince } from './poll.ts'
import { cpuShares, isGone } from './proc.ts'
import { Requests } from './requests.ts'
import type { Group } from './row.ts'
import type { Site } from './world.ts'

/** As the Go agent was measured. */
const loadMs = 200
const many = Array.from({ length: 50 }, (_, index) => `many-${index}`)
/** What follows a start is over by then. */
const settleSeconds = 15
const parts = 3

/** What becomes of servers when the agent goes, and of servers that hang. */
export const supervision: Group = {
  name: 'supervision',
  measure: async (world, { adoptionRuns, hungRuns, supervisedSeconds }) => {
    await using site = await world.openSite()
    await site.admin.create(metalModel('model', site.modelFile))
    const adoptions: Adoption[] = []
    while (adoptions.length < adoptionRuns) adoptions.push(await adoption(site, `adopted-${adoptions.length + 1}`))
    const hangs: Hang[] = []
    while (hangs.length < hungRuns) hangs.push(await hang(site, `hung-${hangs.length + 1}`))
    const alone = await superviseAlone(supervisedSeconds)
    const cpu = await superviseMany(site, supervisedSeconds)
    const asked = adoptions.reduce((sum, { requests }) => sum + requests, 0)
    return [
      {
        what: 'agent killed and started → server adopted',
        unit: 's',
        values: adoptions.map(({ adopted }) => adopted),
        goal: 1,
      },
      {
        what: 'agent killed and started: failed requests',
        unit: '',
        values: [adoptions.reduce((sum, { failed }) => sum + failed, 0)],
        goal: 0,
        note: `of ${asked} requests, one after the other`,
      },
      {
        what: 'adopted server killed → endpoint withdrawn',
        unit: 's',
        values: adoptions.map(({ withdrawn }) => withdrawn),
        goal: 1.5,
      },
      { what: 'server hangs → endpoint withdrawn', unit: 's', values: hangs.map((one) => one.withdrawn), goal: 20 },
      { what: 'server hangs → ready again', unit: 's', values: hangs.map((one) => one.readyAgain), goal: 45 },
      { what: 'CPU, supervising 50 idle servers', unit: '%', values: alone, goal: 1, note: 'without a cluster' },
      {
        what: 'CPU, 50 idle services',
        unit: '%',
        values: cpu,
        note: 'with their heartbeats and what the controller writes',
      },
    ]
  },
}

/** Times in seconds. */
interface Adoption {
  /** Since the second agent was started. */
  readonly adopted: number
  readonly requests: number
  readonly failed: number
  readonly withdrawn: number
}

async function adoption(site: Site, name: string): Promise<Adoption> {
  const { admin, slices } = site
  await using first = await site.startAgent()
  await first.ready()
  await admin.create(servedBySample(name, 'model', { loadMs }))
  await slices.until(name, 'ready')
  const { pid, port } = await served(first, name)

  await using requests = new Requests(port)
  await first.kill()
  await using second = await site.startAgent()
  await poll('the server is adopted', async () => ((await served(second, name)).pid === pid ? true : undefined))
  const adopted = secondsSince(second.startedAt)
  const { asked, failed } = await requests.stop()

  const killedAt = performance.now()
  process.kill(pid, 'SIGKILL')
  const withdrawn = secondsSince(killedAt, await slices.until(name, 'not ready', 'gone'))
  await slices.until(name, 'ready')
  await admin.delete(inferenceService(name))
  await slices.until(name, 'gone')
  return { adopted, requests: asked, failed, withdrawn }
}

interface Hang {
  readonly withdrawn: number
  readonly readyAgain: number
}

async function hang(site: Site, name: string): Promise<Hang> {
  const { admin, slices } = site
  await using agent = await site.startAgent()
  await agent.ready()
  await admin.create(servedBySample(name, 'model', { loadMs }))
  await slices.until(name, 'ready')
  const { pid } = await served(agent, name)
  const stoppedAt = performance.now()
  process.kill(pid, 'SIGSTOP')
  const withdrawn = secondsSince(stoppedAt, await slices.until(name, 'not ready', 'gone'))
  const readyAgain = secondsSince(stoppedAt, await slices.until(name, 'ready'))
  if (!isGone(pid)) throw new Error(`The server that hung, process ${pid}, is still there.`)
  await admin.delete(inferenceService(name))
  await slices.until(name, 'gone')
  return { withdrawn, readyAgain }
}

/** In this process, which has nothing else to do meanwhile. */
async function superviseAlone(seconds: number): Promise<number[]> {
  await using opened = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'metalbar-servers-'))
  opened.defer(() => rm(folder, { recursive: true, force: true }))
  const platform = hostPlatform()
  const ledger = new Ledger({ file: join(folder, 'ledger.json'), platform, log: silentLog })
  const servers = opened.use(new Servers({ platform, ledger, stateDir: folder, log: silentLog }))
  for (const name of many) {
    const key = `bench/${name}`
    servers.start(key, {
      ...{ uid: name, digest: name, executable: sampleServerPath, env: launchEnvironment() },
      ...{ argv: (port) => ['--port', String(port)], port: { kind: 'ephemeral' } },
    })
  }
  await poll('50 servers are ready', () =>
    many.every((name) => servers.get(`bench/${name}`)?.kind === 'ready') ? true : undefined,
  )
  await delay(settleSeconds * 1_000)
  return await cpuShares(process.pid, seconds, parts)
}

async function superviseMany(site: Site, seconds: number): Promise<number[]> {
  const { admin, slices } = site
  await using agent = await site.startAgent()
  await agent.ready()
  await Promise.all(many.map((name) => admin.create(servedBySample(name, 'model', {}))))
  await Promise.all(many.map((name) => slices.until(name, 'ready')))
  await delay(settleSeconds * 1_000)
  return await cpuShares(agent.pid, seconds, parts)
}

/** The process that the agent shows as ready. */
async function served(agent: AgentProcess, name: string): Promise<{ pid: number; port: number }> {
  return await poll(`${name} is shown as ready`, async () => {
    const snapshot = await agent.snapshotIfThere()
    const service = snapshot?.services.find((one) => one.name === name)
    if (service?.state !== 'ready' || service.pid === undefined || service.port === undefined) return undefined
    return { pid: service.pid, port: service.port }
  })
}
