import { mkdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import axe, { type AxeResults } from 'axe-core'
import { execa } from 'execa'
import type { Browser, Page } from 'playwright-core'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { agentSettings } from '../../src/agent-core/settings/settings.ts'
import { hostAgent, type HostedAgent } from '../../src/serve/host-agent.ts'
import type { SettingsPatch } from '../../src/contract/settings.ts'
import type { Answer } from '../../src/contract/queries.ts'
import { eventually } from '../support/eventually.ts'
import { servingWorld, type ServingWorld } from '../support/serving-world.ts'
import { silentLog } from '../support/silent-log.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { useBrowser } from './stage.ts'

/** Generous: the machine may run many other tests beside this one. */
const patienceMs = 40_000
const screenshots = join(import.meta.dirname, '../../out/screenshots')

const browser = useBrowser()
let world: ServingWorld
let hosted: HostedAgent
let page: Page
let complaints: string[]
let parts: AsyncDisposableStack

beforeEach(async () => {
  parts = new AsyncDisposableStack()
  world = parts.use(await servingWorld())
  hosted = await startAgent()
  ;({ page, complaints } = await openInBrowser(browser(), await hosted.openWindow()))
})
afterEach(() => parts.disposeAsync())

test('a service is seen to come up, step by step, and its output is followed', async () => {
  await page.getByRole('heading', { name: 'No service for this machine yet' }).waitFor()
  await picture('empty')
  world.apply('tiny', { loadMs: 3_000, noise: { lines: 1, lineBytes: 40, everyMs: 250 } })
  await row('Starting').click()
  await step('Started').getByText('done').waitFor()
  await step('Healthy').getByText('loading').waitFor()
  await picture('starting')
  await step('Cluster agrees').getByText('done').waitFor()
  await detail().getByText('Ready', { exact: true }).waitFor()
  await page.getByText('main: model loaded').waitFor()
  const lines = () => page.getByRole('log').locator('p').count()
  const before = await lines()
  await eventually(async () => (await lines()) > before, { timeoutMs: patienceMs, what: 'new lines of the log' })
  await picture('ready')
  const { state, pid, port } = view()
  expect({
    state,
    server: await detail().getByText(`llama-server · port ${port} · process ${pid}`).count(),
    steps: await page.getByRole('list', { name: 'Steps' }).getByRole('listitem').getByText('done').count(),
    violations: await violations(),
    complaints,
  }).toEqual({ state: 'ready', server: 1, steps: 5, violations: [], complaints: [] })
})

test('a server that is killed comes back, and how it ended is shown', async () => {
  const killed = await served('tiny')
  process.kill(killed, 'SIGKILL')
  const crash = page.getByRole('region', { name: 'Crash' })
  await crash.getByText('Ended by SIGKILL', { exact: true }).waitFor()
  await picture('killed')
  await eventually(() => view().state === 'ready' && view().pid !== killed, { timeoutMs: patienceMs, what: 'another' })
  await detail().getByText('Ready', { exact: true }).waitFor()
  await picture('killed-and-back')
  expect({
    sentence: await crash.getByText(view().crash?.message ?? 'none').count(),
    violations: await violations(),
    complaints,
  }).toEqual({ sentence: 1, violations: [], complaints: [] })
})

test('a server that crashes says in the window what it said last', async () => {
  await served('tiny', { crashAfterRequests: 1, crash: { message: 'error: the weights are torn', exitCode: 3 } })
  await fetch(`http://127.0.0.1:${view().port}/completion`, { method: 'POST', body: '{}' })
  const crash = page.getByRole('region', { name: 'Crash' })
  await crash.getByText('Exit code 3').waitFor()
  await picture('crashed')
  expect({
    sentence: await crash.getByText(view().crash?.message ?? 'none').count(),
    firstError: await crash.getByText('error: the weights are torn', { exact: true }).count(),
    violations: await violations(),
    complaints,
  }).toEqual({ sentence: 1, firstError: 1, violations: [], complaints: [] })
})

test('Stop suspends the service and ends its process, Start brings it back', async () => {
  const first = await served('tiny')
  await press('Stop')
  await page.getByRole('button', { name: 'Start', exact: true }).waitFor()
  await eventually(() => !lives(first), { timeoutMs: patienceMs, what: `the end of process ${first}` })
  const stopped = { suspended: world.isSuspended('tiny'), pid: view().pid }
  await picture('stopped')
  const violationsStopped = await violations()
  await press('Start')
  await detail().getByText('Ready', { exact: true }).waitFor()
  await picture('started-again')
  const { pid = first } = view()
  expect({
    stopped,
    started: { suspended: world.isSuspended('tiny'), isAnother: pid !== first, lives: lives(pid) },
    violations: [...violationsStopped, ...(await violations())],
    complaints,
  }).toEqual({
    stopped: { suspended: true, pid: undefined },
    started: { suspended: false, isAnother: true, lives: true },
    violations: [],
    complaints: [],
  })
})

test('the addresses, the command line and the memory of a server are those that it has', async () => {
  const pid = await served('tiny')
  const { url = '', port } = view()
  const texts = await detail().locator('pre').allTextContents()
  const curl = texts.find((text) => text.startsWith('curl ')) ?? ''
  const [address = '', , header = '', , body = ''] = await argumentsOf(curl)
  const [name = '', value = ''] = header.split(': ')
  const answered = await fetch(address, { method: 'POST', headers: { [name]: value }, body })
  expect({
    url,
    shown: await detail().getByText(url, { exact: true }).count(),
    local: curl.includes(`http://127.0.0.1:${port}/`),
    answer: (await answered.text()).includes('choices'),
    command: texts.some((text) => text.includes(` --port ${port}`) && text.includes('sample-server')),
    process: lives(pid),
    violations: await violations(),
    complaints,
  }).toEqual({
    url: 'http://tiny.default.svc.cluster.local:8080',
    ...{ shown: 1, local: true, answer: true, command: true, process: true, violations: [], complaints: [] },
  })
})

test('a page sets what it may, sees what takes a shell as a line to copy, and finds what happened', async () => {
  await served('tiny')
  const turnOn = await page.getByRole('button', { name: 'Turn on' }).count()
  await page.getByRole('tab', { name: 'Settings' }).click()
  await page.getByText('metal-agent settings set hub-token-file VALUE').waitFor()
  await page.getByLabel('drain-timeout', { exact: true }).fill('7s')
  await page.getByRole('button', { name: 'Apply' }).click()
  await page.getByText('drainLimitMs is set').waitFor()
  const { settings } = (await hosted.door.query({ name: 'settings' })) as Answer<'settings'>
  await picture('settings')
  const onSettings = await violations()
  await page.getByRole('tab', { name: 'Activity' }).click()
  await page.getByText('Set by a person: drainLimitMs is set').waitFor()
  await picture('activity')
  const onActivity = await violations()
  await page.getByRole('tab', { name: 'Models' }).click()
  await page.getByText('Used by default/tiny.').waitFor()
  await picture('models')
  expect({
    turnOn,
    drain: settings.find(({ name }) => name === 'drainLimitMs')?.value,
    violations: [...onSettings, ...onActivity, ...(await violations())],
    complaints,
  }).toEqual({ turnOn: process.platform === 'darwin' ? 1 : 0, drain: 7_000, violations: [], complaints: [] })
})

test('what is set on the command line is seen in the open settings, beside what a person is writing', async () => {
  await page.getByRole('tab', { name: 'Settings' }).click()
  const written = page.getByLabel('drain-timeout', { exact: true })
  const untouched = page.getByLabel('come-back-after', { exact: true })
  await written.fill('7s')
  const set = (settings: SettingsPatch) =>
    hosted.door.command({ requestId: crypto.randomUUID(), command: { name: 'updateSettings', settings } })
  await set({ comeBackMs: 60_000 })
  await eventually(async () => (await untouched.inputValue()) === '1m', {
    timeoutMs: patienceMs,
    what: 'the new value',
  })
  await set({ drainLimitMs: 9_000 })
  await page.getByText('Meanwhile it was set to 9s elsewhere; Apply sets what you wrote instead.').waitFor()
  await picture('settings-conflict')
  expect({ kept: await written.inputValue(), violations: await violations(), complaints }).toEqual({
    ...{ kept: '7s', violations: [], complaints: [] },
  })
})

async function startAgent(): Promise<HostedAgent> {
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
      logFormat: 'json',
      ...world.preferences,
    }),
    platform: hostPlatform(),
    version: 'test',
    env: process.env,
    temporaryDir: tmpdir(),
    windowFolder: inject('windowFolder'),
    log: silentLog,
  })
  if (!result.ok) throw new Error(result.message)
  parts.defer(async () => {
    if (!(await result.hosted.stop())) throw new Error('The agent left something.')
  })
  return result.hosted
}

async function openInBrowser(opened: Browser, url: string) {
  const context = await opened.newContext({ viewport: { width: 400, height: 980 }, reducedMotion: 'reduce' })
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

/** Ready and open in the window; answers its process. */
async function served(name: string, script: Parameters<ServingWorld['apply']>[1] = {}): Promise<number> {
  world.apply(name, script)
  await row('Ready').click()
  await detail().getByText('Ready', { exact: true }).waitFor()
  const { pid } = view()
  if (pid === undefined) throw new Error(`${name} has no process.`)
  return pid
}

function view() {
  const [service] = hosted.door.get().services
  if (!service) throw new Error('The agent knows no service.')
  return service
}

/** What a shell makes of a line that calls curl. */
async function argumentsOf(line: string): Promise<string[]> {
  const { stdout } = await execa('/bin/sh', ['-c', `curl() { printf '%s\\n' "$@"; }; ${line}`])
  return stdout.split('\n')
}

const row = (state: string) => page.getByRole('option', { name: 'tiny' }).filter({ hasText: state })
const detail = () => page.getByRole('region', { name: 'tiny' })
const step = (name: string) => page.getByRole('list', { name: 'Steps' }).getByRole('listitem').filter({ hasText: name })
const press = (name: string) => page.getByRole('button', { name, exact: true }).click()
const picture = (name: string) => page.screenshot({ path: join(screenshots, `real-${name}.png`) })

function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Of WCAG 2.2, levels A and AA, and of what is good practice. */
async function violations(): Promise<unknown[]> {
  // React Aria reads a pending button out by reference, and keeps the reference for seconds when the button has gone.
  const readOut = page.locator('[data-live-announcer] [role="img"]')
  await eventually(async () => (await readOut.count()) === 0, { timeoutMs: patienceMs, what: 'the end of reading out' })
  await page.evaluate(axe.source)
  const { violations: found } = await page.evaluate<AxeResults>('axe.run(document)')
  return found.map(({ id, nodes }) => ({ id, where: nodes.map(({ html }) => html) }))
}
