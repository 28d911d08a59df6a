import { execa } from 'execa'
import type { Page } from 'playwright'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { HostedAgent } from '../../src/serve/host-agent.ts'
import type { Answer } from '../../src/contract/queries.ts'
import { eventually } from '../support/eventually.ts'
import { servingWorld, type ServingWorld } from '../support/serving-world.ts'
import { lives, openRealWindow, patienceMs } from './real-window.ts'
import { shownServices } from './shown-services.ts'
import { tell, turnTo } from './setting-pages.ts'
import { useBrowser } from './stage.ts'

const browser = useBrowser()
let world: ServingWorld
let hosted: HostedAgent
let page: Page
let complaints: string[]
let parts: AsyncDisposableStack
const { detail, press, row, served, showsReady, step, view } = shownServices(() => ({ page, hosted, world }))

beforeEach(async () => {
  parts = new AsyncDisposableStack()
  world = parts.use(await servingWorld())
  ;({ hosted, page, complaints } = await openRealWindow({ browser: browser(), world, parts }))
})
afterEach(() => parts.disposeAsync())

test('a service is seen to come up, step by step, and its output is followed', async () => {
  await page.getByRole('heading', { name: 'No service for this machine yet' }).waitFor()
  world.apply('tiny', { loadMs: 3_000, noise: { lines: 1, lineBytes: 40, everyMs: 250 } })
  await row('Starting').click()
  await step('Started').getByText('done').waitFor()
  await step('Healthy').getByText('loading').waitFor()
  await step('Cluster agrees').getByText('done').waitFor()
  await showsReady()
  await page.getByText('main: model loaded').waitFor()
  const lines = () => page.getByRole('log').locator('p').count()
  const before = await lines()
  await eventually(async () => (await lines()) > before, { timeoutMs: patienceMs, what: 'new lines of the log' })
  const { state, pid, port } = view()
  expect({
    state,
    runtime: await detail().getByText('llama-server, chosen by spec.runtime', { exact: true }).count(),
    server: await detail().getByText(`port ${port} · process ${pid}`).count(),
    steps: await page.getByRole('list', { name: 'Steps' }).getByRole('listitem').getByText('done').count(),
    complaints,
  }).toEqual({ state: 'ready', runtime: 1, server: 1, steps: 5, complaints: [] })
})

test('a server that is killed comes back, and how it ended is shown', async () => {
  const killed = await served('tiny')
  process.kill(killed, 'SIGKILL')
  const crash = page.getByRole('region', { name: 'Crash' })
  await crash.getByText('Ended by SIGKILL', { exact: true }).waitFor()
  await eventually(() => view().state === 'ready' && view().pid !== killed, { timeoutMs: patienceMs, what: 'another' })
  await showsReady()
  expect({
    sentence: await crash.getByText(view().crash?.guess ?? 'none').count(),
    complaints,
  }).toEqual({ sentence: 1, complaints: [] })
})

test('a server that crashes says in the window what it said last', async () => {
  await served('tiny', { crashAfterRequests: 1, crash: { message: 'error: the weights are torn', exitCode: 3 } })
  await fetch(`http://127.0.0.1:${view().port}/completion`, { method: 'POST', body: '{}' })
  const crash = page.getByRole('region', { name: 'Crash' })
  await crash.getByText('Exit code 3').waitFor()
  expect({
    sentence: await crash.getByText(view().crash?.message ?? 'none').count(),
    firstError: await crash.getByText('error: the weights are torn', { exact: true }).count(),
    complaints,
  }).toEqual({ sentence: 1, firstError: 1, complaints: [] })
})

test('Stop suspends the service and ends its process, Start brings it back', async () => {
  const first = await served('tiny')
  await press('Stop')
  await page.getByRole('button', { name: 'Start', exact: true }).waitFor()
  await eventually(() => !lives(first), { timeoutMs: patienceMs, what: `the end of process ${first}` })
  const stopped = { suspended: world.isSuspended('tiny'), pid: view().pid }
  await press('Start')
  await showsReady()
  const { pid = first } = view()
  expect({
    stopped,
    started: { suspended: world.isSuspended('tiny'), isAnother: pid !== first, lives: lives(pid) },
    complaints,
  }).toEqual({
    stopped: { suspended: true, pid: undefined },
    started: { suspended: false, isAnother: true, lives: true },
    complaints: [],
  })
})

test('the addresses, the command line and the memory of a server are those that it has', async () => {
  const pid = await served('tiny')
  const { url = '', port } = view()
  const texts = await detail().locator('pre').allTextContents()
  const curl = texts.find((text) => text.startsWith('curl ') && text.includes('127.0.0.1')) ?? ''
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
    complaints,
  }).toEqual({
    url: 'http://tiny.default.svc.cluster.local:8080',
    ...{ shown: 1, local: true, answer: true, command: true, process: true, complaints: [] },
  })
})

test('a page sets what it may, sees what takes a shell as a line to copy, and finds what happened', async () => {
  await served('tiny')
  const turnOn = await page.getByRole('button', { name: 'Turn on' }).count()
  await page.getByRole('tab', { name: 'Settings' }).click()
  await turnTo(page, 'Models')
  await tell(page, 'Hugging Face token file')
  await page.getByText('metal-agent settings set hub-token-file VALUE').waitFor()
  await turnTo(page, 'Runtimes')
  await page.getByLabel('Time for requests to finish', { exact: true }).fill('7s')
  await page.getByRole('button', { name: 'Apply' }).click()
  await page.getByText('Time for requests to finish is set to 7s').waitFor()
  const { settings } = (await hosted.door.query({ name: 'settings' })) as Answer<'settings'>
  await page.getByRole('tab', { name: 'Activity' }).click()
  await page.getByText('Set by a person: Time for requests to finish is set to 7s').waitFor()
  await page.getByRole('tab', { name: 'Models' }).click()
  await page.getByText('Used by default/tiny.').waitFor()
  expect({
    turnOn,
    drain: settings.find(({ name }) => name === 'drainLimitMs')?.value,
    complaints,
  }).toEqual({ turnOn: process.platform === 'darwin' ? 1 : 0, drain: 7_000, complaints: [] })
})

/** What a shell makes of a line that calls curl. */
async function argumentsOf(line: string): Promise<string[]> {
  const { stdout } = await execa('/bin/sh', ['-c', `curl() { printf '%s\\n' "$@"; }; ${line}`])
  return stdout.split('\n')
}
