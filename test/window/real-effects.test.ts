import type { Page } from 'playwright'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Answer } from '../../src/contract/queries.ts'
import type { HostedAgent } from '../../src/serve/host-agent.ts'
import { eventually } from '../support/eventually.ts'
import { startFileServer } from '../support/file-server.ts'
import { servingWorld, type ServingWorld } from '../support/serving-world.ts'
import { openRealWindow, patienceMs } from './real-window.ts'
import { shownServices } from './shown-services.ts'
import { turnTo } from './setting-pages.ts'
import { useBrowser } from './stage.ts'

const browser = useBrowser()
let world: ServingWorld
let hosted: HostedAgent
let page: Page
let complaints: string[]
let parts: AsyncDisposableStack
const { detail, press, served, showsReady, view } = shownServices(() => ({ page, hosted, world }))

const family = { family: 'IPv4', netmask: '255.255.255.0', internal: false } as const
const interfaces = [
  { name: 'en0', address: '192.168.1.20', ...family },
  { name: 'utun4', address: '100.64.0.10', ...family },
]

beforeEach(async () => {
  parts = new AsyncDisposableStack()
  world = parts.use(await servingWorld())
  ;({ hosted, page, complaints } = await openRealWindow({ browser: browser(), world, parts, interfaces }))
})
afterEach(() => parts.disposeAsync())

test('the address that is chosen is the one that pods are sent to, and the process stays', async () => {
  const pid = await served('tiny')
  const before = world.published('tiny')
  await page.getByRole('tab', { name: 'Settings' }).click()
  await turnTo(page, 'Network')
  await press('Use 100.64.0.10')
  await eventually(() => world.published('tiny') === '100.64.0.10', { timeoutMs: patienceMs, what: 'it in the slice' })
  await page.getByRole('button', { name: 'Copy address 100.64.0.10' }).waitFor()
  await press('Use Automatic')
  await eventually(() => world.published('tiny') === before, { timeoutMs: patienceMs, what: 'the first in the slice' })
  expect({ before, isSame: view().pid === pid, complaints }).toEqual({
    ...{ before: '192.168.1.20', isSame: true, complaints: [] },
  })
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

test('the conditions and Events that the cluster has of a service are shown, each with its sentence', async () => {
  await served('tiny')
  const service = { namespace: 'default', name: 'tiny' }
  const asked = async () => ({
    conditions: ((await hosted.door.query({ name: 'conditions', service })) as Answer<'conditions'>).conditions,
    events: ((await hosted.door.query({ name: 'events', service, limit: 8 })) as Answer<'events'>).events,
  })
  const { conditions } = await eventually(
    async () => {
      const answer = await asked()
      return answer.conditions.some(({ type }) => type === 'MetalAgent') && answer.events.length > 1 && answer
    },
    { timeoutMs: patienceMs, what: 'conditions and Events' },
  )
  for (const { type, status, message } of conditions) {
    const item = detail()
      .getByRole('listitem')
      .filter({ hasText: `${type}: ${status}` })
    await item.waitFor()
    if (message !== '') await item.getByText(message, { exact: true }).waitFor()
  }
  const { events } = await asked()
  for (const { reason, message } of events) {
    await detail()
      .getByRole('listitem')
      .filter({ hasText: reason })
      .getByText(message, { exact: true })
      .first()
      .waitFor()
  }
  expect({
    agrees: conditions.find(({ type }) => type === 'MetalAgent')?.status,
    reasons: events.map(({ reason }) => reason).includes('Ready'),
    complaints,
  }).toEqual({ agrees: 'True', reasons: true, complaints: [] })
})

test('Cancel ends the look at a model whose server does not go on', async () => {
  await using files = await startFileServer()
  const content = Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(4_096)])
  const file = files.serve('/slow.gguf', content, { fault: { kind: 'stall', afterBytes: 16 } })
  await press('Add a model…')
  await page.getByLabel('Model', { exact: true }).fill(file.url)
  await page.getByLabel('Model', { exact: true }).press('Enter')
  await eventually(() => file.openResponses > 0, { timeoutMs: patienceMs, what: 'the request for its header' })
  await press('Cancel')
  await eventually(() => file.openResponses === 0, { timeoutMs: patienceMs, what: 'the end of the request' })
  expect(complaints).toEqual([])
})
