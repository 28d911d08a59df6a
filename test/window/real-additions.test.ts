import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { HostedAgent } from '../../src/serve/host-agent.ts'
import { eventually } from '../support/eventually.ts'
import { startFileServer } from '../support/file-server.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { servingWorld, type ServingWorld } from '../support/serving-world.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { lives, openRealWindow, patienceMs } from './real-window.ts'
import { shownServices } from './shown-services.ts'
import { useBrowser } from './stage.ts'

const mebibyte = 1024 ** 2

const browser = useBrowser()
let world: ServingWorld
let hosted: HostedAgent
let page: Page
let complaints: string[]
let parts: AsyncDisposableStack
let source: string
const { press, showsReady, view } = shownServices(() => ({ page, hosted, world }))

beforeEach(async () => {
  parts = new AsyncDisposableStack()
  world = parts.use(await servingWorld())
  ;({ hosted, page, complaints } = await openRealWindow({ browser: browser(), world, parts }))
  const { dir } = parts.use(await temporaryFolder())
  const files = parts.use(await startFileServer())
  await writeLlamaGguf(join(dir, 'tiny.gguf'), { context: 16_384 })
  source = files.serve('/tiny.gguf', await readFile(join(dir, 'tiny.gguf'))).url
})
afterEach(() => parts.disposeAsync())

test('a model is added to its first token, a second one is made to fit by a button, and deleted again with its Model', async () => {
  await hosted.door.command({
    requestId: crypto.randomUUID(),
    command: { name: 'updateSettings', settings: { memoryBudgetBytes: 800 * mebibyte } },
  })
  await page.getByRole('button', { name: 'Add a model…' }).click()
  await lookUp()
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
  await page.getByRole('button', { name: 'Add a model…' }).click()
  await lookUp()
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

async function lookUp() {
  await page.getByLabel('Model', { exact: true }).fill(source)
  await page.getByLabel('Model', { exact: true }).press('Enter')
}
