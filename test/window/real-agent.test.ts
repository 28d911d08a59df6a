import { execa } from 'execa'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { agentSettings } from '../../src/agent-core/settings/settings.ts'
import type { Answer } from '../../src/contract/queries.ts'
import type { SettingsPatch } from '../../src/contract/settings.ts'
import { hostAgent, type HostedAgent } from '../../src/serve/host-agent.ts'
import { builtWindow } from '../support/built-app/build-app.ts'
import { eventually } from '../support/eventually.ts'
import { type FileServer, startFileServer } from '../support/file-server.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { servingWorld, type ServingWorld } from '../support/serving-world.ts'
import { lives } from '../support/shell-app.ts'
import { silentLog } from '../support/silent-log.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { tell, turnTo } from './setting-pages.ts'
import { useBrowser } from './stage.ts'

/** Generous: the machine may run many other tests beside this one. */
const patienceMs = 40_000
const mebibyte = 1024 ** 2

const browser = useBrowser()
let world: ServingWorld
let folder: string
let files: FileServer
let hosted: HostedAgent
let page: Page
let complaints: string[]
let parts: AsyncDisposableStack

/** A whole agent on a simulated cluster, and its window in a browser. */
beforeEach(async () => {
  parts = new AsyncDisposableStack()
  world = parts.use(await servingWorld())
  folder = parts.use(await temporaryFolder()).dir
  files = parts.use(await startFileServer())
  hosted = await startAgent()
  const context = await browser().newContext({ viewport: { width: 400, height: 980 }, reducedMotion: 'reduce' })
  parts.defer(() => context.close())
  page = await context.newPage()
  page.setDefaultTimeout(patienceMs)
  complaints = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  await page.goto(await hosted.openWindow())
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

test('the log is followed through a crash into the next run, and the run that crashed can be read', async () => {
  const script = { noise: { lines: 1, lineBytes: 40, everyMs: 100 } }
  const crash = { message: 'error: the weights are torn', exitCode: 3 }
  const first = await served('tiny', { ...script, crashAfterRequests: 1, crash })
  const log = page.getByRole('log')
  const lines = () => log.locator('p').count()
  const before = await lines()
  await eventually(async () => (await lines()) > before, { timeoutMs: patienceMs, what: 'lines before the crash' })
  await fetch(`http://127.0.0.1:${view().port}/completion`, { method: 'POST', body: '{}' })
  await page.getByRole('region', { name: 'Crash' }).getByText('Exit code 3').waitFor()
  await log.getByText('A new run begins.').waitFor()
  await showsReady()
  const between = await lines()
  await eventually(async () => (await lines()) > between, { timeoutMs: patienceMs, what: 'lines of the next run' })
  const atCrash = await log.getByText('error: the weights are torn').count()
  await page.getByRole('radio', { name: 'Previous', exact: true }).click()
  await log.getByText('error: the weights are torn').waitFor()
  const ofPrevious = await log.innerText()
  await page.getByRole('radio', { name: 'This run', exact: true }).click()
  await eventually(async () => !(await log.innerText()).includes('the weights are torn'), { timeoutMs: patienceMs })
  const again = await lines()
  await eventually(async () => (await lines()) > again, { timeoutMs: patienceMs, what: 'lines of this run' })
  expect({
    isAnother: view().pid !== first,
    atCrash,
    previousHasNext: ofPrevious.includes('A new run begins.'),
    complaints,
  }).toEqual({ isAnother: true, atCrash: 1, previousHasNext: false, complaints: [] })
})

test('a model is added to its first token, a second one is made to fit by a button, and deleted again with its Model', async () => {
  await writeLlamaGguf(join(folder, 'tiny.gguf'), { context: 16_384 })
  const source = files.serve('/tiny.gguf', await readFile(join(folder, 'tiny.gguf'))).url
  await set({ memoryBudgetBytes: 800 * mebibyte })
  await lookUp(source)
  await page.getByText('Fits', { exact: true }).waitFor()
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('first')
  await press('Add')
  await showsReady('first')
  const answer = await fetch(`http://127.0.0.1:${view('first').port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 }),
  })
  const firstToken = (await answer.text()).includes('choices')

  await press('Services')
  await lookUp(source)
  await page.getByText('Fits when others leave memory').waitFor()
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('second')
  await press('Add and wait for memory')
  const ways = page.getByRole('region', { name: 'Does not fit' })
  await ways.getByRole('button', { name: /^Raise the budget to / }).waitFor()
  await ways.getByRole('button', { name: /^Raise the budget to / }).click()
  await showsReady('second')
  await press('Undo')
  await eventually(() => hosted.door.get().memory?.budgetBytes === 800 * mebibyte, {
    timeoutMs: patienceMs,
    what: 'the budget that was before',
  })

  const { pid = 0 } = view('second')
  await press('Delete second…')
  await page.getByText('The Model second is deleted with it').waitFor()
  await press('Delete second')
  await page.getByRole('option', { name: 'first' }).waitFor()
  await eventually(() => !lives(pid), { timeoutMs: patienceMs, what: 'the end of its process' })
  const isLeft = (resource: string) => (name: string) => world.sim.get({ resource, name }) !== undefined
  expect({
    firstToken,
    models: ['first', 'second'].map(isLeft('models')),
    services: ['first', 'second'].map(isLeft('inferenceservices')),
    complaints,
  }).toEqual({ firstToken: true, models: [true, false], services: [true, false], complaints: [] })
})

test('Cancel ends the look at a model whose server does not go on', async () => {
  const content = Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(4_096)])
  const file = files.serve('/slow.gguf', content, { fault: { kind: 'stall', afterBytes: 16 } })
  await lookUp(file.url)
  await eventually(() => file.openResponses > 0, { timeoutMs: patienceMs, what: 'the request for its header' })
  await press('Cancel')
  await eventually(() => file.openResponses === 0, { timeoutMs: patienceMs, what: 'the end of the request' })
  expect(complaints).toEqual([])
})

test('no token and no password reaches the page, only where they come from', async () => {
  const file = join(folder, 'token')
  await writeFile(file, 'hf_SecretOfThisPerson')
  const heard: string[] = []
  page.on('response', (response) => {
    void response.text().then(
      (text) => heard.push(text),
      () => undefined,
    )
  })
  await page.getByRole('tab', { name: 'Settings' }).click()
  await turnTo(page, 'Models')
  await set({ hubTokenFile: file, hubEndpoint: 'https://me:SecretOfTheMirror@mirror.lan/hub' })
  await page.getByText(`from the file ${file}`).waitFor()
  await page.getByText('https://mirror.lan/hub').waitFor()
  await eventually(() => heard.some((text) => text.includes('mirror.lan')), {
    timeoutMs: patienceMs,
    what: 'an answer',
  })
  expect(`${heard.join('\n')}${await page.content()}`).not.toMatch(/SecretOf/)
})

async function startAgent(): Promise<HostedAgent> {
  const kubeconfig = join(folder, 'kubeconfig')
  await writeFile(kubeconfig, world.sim.kubeconfig())
  const stateDir = join(folder, 'state')
  await mkdir(stateDir, { mode: 0o700 })
  const result = await hostAgent({
    settings: agentSettings.parse({
      kubeconfig,
      namespace: 'default',
      modelStore: join(folder, 'models'),
      stateDir,
      startupStallMs: 60_000,
      port: 0,
      logLevel: 'info',
      ...world.preferences,
    }),
    platform: hostPlatform(),
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

/** Of `tiny` where no name is given. */
const detail = (name = 'tiny') => page.getByRole('region', { name, exact: true })
const row = (state: string, name = 'tiny') =>
  page.getByRole('option', { name, exact: false }).filter({ hasText: state })
const step = (name: string) => page.getByRole('list', { name: 'Steps' }).getByRole('listitem').filter({ hasText: name })
const press = (name: string) => page.getByRole('button', { name, exact: true }).click()

/** The state, not an Event of that name. */
const showsReady = (name = 'tiny') =>
  detail(name)
    .getByRole('paragraph')
    .filter({ hasText: /^Ready ?for / })
    .waitFor()

/** As the agent knows it. */
function view(name = 'tiny') {
  const service = hosted.door.get().services.find((one) => one.name === name)
  if (!service) throw new Error(`The agent knows no service ${name}.`)
  return service
}

/** Ready and open in the window; answers its process. */
async function served(name: string, script: Parameters<ServingWorld['apply']>[1] = {}): Promise<number> {
  world.apply(name, script)
  await row('Ready', name).click()
  await showsReady(name)
  const { pid } = view(name)
  if (pid === undefined) throw new Error(`${name} has no process.`)
  return pid
}

const set = (settings: SettingsPatch) =>
  hosted.door.command({ requestId: crypto.randomUUID(), command: { name: 'updateSettings', settings } })

async function lookUp(source: string) {
  await press('Add a model…')
  await page.getByLabel('Model', { exact: true }).fill(source)
  await page.getByLabel('Model', { exact: true }).press('Enter')
}

/** What a shell makes of a line that calls curl. */
async function argumentsOf(line: string): Promise<string[]> {
  const { stdout } = await execa('/bin/sh', ['-c', `curl() { printf '%s\\n' "$@"; }; ${line}`])
  return stdout.split('\n')
}
