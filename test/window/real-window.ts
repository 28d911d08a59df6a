import { mkdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import type { HostInterface } from '../../src/agent-core/platform/platform.ts'
import { agentSettings } from '../../src/agent-core/settings/settings.ts'
import { hostAgent, type HostedAgent } from '../../src/serve/host-agent.ts'
import { builtWindow } from '../support/built-app/build-app.ts'
import type { ServingWorld } from '../support/serving-world.ts'
import { silentLog } from '../support/silent-log.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Generous: the machine may run many other tests beside this one. */
export const patienceMs = 40_000

export interface RealWindowOptions {
  readonly browser: Browser
  readonly world: ServingWorld
  /** Ends what is started. */
  readonly parts: AsyncDisposableStack
  /** In place of the addresses of the machine that the test runs on, of which the agent then chooses one. */
  readonly interfaces?: readonly HostInterface[] | undefined
}

/** A whole agent on a simulated cluster, and its window in a browser. */
export async function openRealWindow({ browser, world, parts, interfaces }: RealWindowOptions) {
  const hosted = await startAgent({ world, parts, interfaces })
  return { hosted, ...(await openInBrowser({ browser, parts }, await hosted.openWindow())) }
}

async function startAgent({ world, parts, interfaces }: Omit<RealWindowOptions, 'browser'>): Promise<HostedAgent> {
  const platform = hostPlatform()
  if (interfaces) platform.interfaces = () => interfaces
  const { dir } = parts.use(await temporaryFolder())
  const kubeconfig = join(dir, 'kubeconfig')
  await writeFile(kubeconfig, world.sim.kubeconfig())
  const stateDir = join(dir, 'state')
  await mkdir(stateDir, { mode: 0o700 })
  const result = await hostAgent({
    settings: agentSettings.parse({
      kubeconfig,
      namespace: 'default',
      modelStore: join(dir, 'models'),
      stateDir,
      startupStallMs: 60_000,
      port: 0,
      logLevel: 'info',
      ...world.preferences,
      ...(interfaces && { hostIp: undefined }),
    }),
    platform,
    version: 'test',
    env: process.env,
    temporaryDir: tmpdir(),
    windowFolder: builtWindow,
    log: silentLog,
  })
  if (!result.ok) throw new Error(result.message)
  parts.defer(async () => {
    if (!(await result.hosted.stop())) throw new Error('The agent left something.')
  })
  return result.hosted
}

async function openInBrowser({ browser, parts }: Omit<RealWindowOptions, 'world'>, url: string) {
  const context = await browser.newContext({ viewport: { width: 400, height: 980 }, reducedMotion: 'reduce' })
  parts.defer(() => context.close())
  const opening = await context.newPage()
  opening.setDefaultTimeout(patienceMs)
  const said: string[] = []
  opening.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') said.push(message.text())
  })
  opening.on('pageerror', (error) => said.push(String(error)))
  await opening.goto(url)
  return { page: opening, complaints: said }
}

export function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
