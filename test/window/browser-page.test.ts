import type { Browser, Page } from 'playwright'
import { expect, test } from 'vitest'
import type { AgentDoor } from '../../src/serve/agent-door.ts'
import { WindowServer } from '../../src/serve/http/window-server.ts'
import { builtWindow } from '../support/built-app/build-app.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { FakeAgent } from '../support/window/fake-agent.ts'
import { output, ready } from '../support/window/scene-services.ts'
import { useBrowser } from './stage.ts'

const browser = useBrowser()

test('the URL opens the window, with its powers and without its token, and breaks no policy', async () => {
  await using served = await serve()
  await using visit = await open(browser(), await served.server.open())
  const { page, complaints } = visit
  await page.getByRole('option', { name: 'phi-4-mini' }).click()
  await page.getByText('POST /v1/chat/completions 192.168.1.7 200 (24)').waitFor()
  await page.getByRole('button', { name: 'Stop' }).click()
  await eventually(() => served.agent.asked.length === 1)
  await eventually(() => served.agent.logStreams.length > 0)
  served.agent.print({ lines: ['the newest line'], start: output.end, end: { fileId: 'run-2', offset: 2_500 } })
  await page.getByText('the newest line').waitFor()
  served.agent.show(sampleSnapshot({ revision: 2, services: [{ ...ready, revision: 2, message: 'Changed.' }] }))
  await page.getByRole('region', { name: 'phi-4-mini' }).getByText('Changed.').waitFor()
  expect({ url: page.url(), asked: served.agent.asked[0]?.command, complaints }).toEqual({
    url: `http://127.0.0.1:${served.port}/`,
    asked: { name: 'stop', service: { namespace: 'default', name: 'phi-4-mini' }, scope: 'cluster' },
    complaints: [],
  })
})

test('a page in a browser has no control that only the app has: its window is the browser’s', async () => {
  await using served = await serve()
  await using visit = await open(browser(), await served.server.open())
  const { page } = visit
  await page.getByRole('button', { name: /^Copy address/ }).waitFor()
  const ofApp = page.getByRole('button', { name: /window of its own|Hide this window/ })
  expect([await page.evaluate('typeof metalbar'), await ofApp.count()]).toEqual(['undefined', 0])
})

test('what is going on is painted before the script has run', async () => {
  await using served = await serve()
  const context = await browser().newContext()
  try {
    const page = await context.newPage()
    await page.route('**/*.js', (route) => route.abort())
    await page.goto(await served.server.open())
    await page.getByRole('heading', { name: 'Connecting to the agent…' }).waitFor()
    const paints = await page.waitForFunction('performance.getEntriesByName("first-contentful-paint").length > 0')
    expect(await paints.jsonValue()).toBe(true)
  } finally {
    await context.close()
  }
})

test('how power is turned on depends on what is set to measure, and nothing is to be turned on but on a Mac', async () => {
  await using served = await serve()
  served.agent.known.settings = {
    settings: [{ name: 'powerSource', value: 'macmon', from: 'person' }],
    start: [],
  }
  await using visit = await open(browser(), await served.server.open())
  const { page } = visit
  const power = page.getByRole('region', { name: 'Power' })
  await power.getByRole('button', { name: 'Turn on' }).click()
  await power.getByText('metal-agent settings set apple-power-enabled on').waitFor()
  const words = await power.innerText()
  const { host } = sampleSnapshot()
  served.agent.show(sampleSnapshot({ revision: 2, services: [ready], host: { ...host, platform: 'linux' } }))
  await power.getByText('measured on Macs only').waitFor()
  expect({
    root: /root|power install/.test(words),
    buttons: await power.getByRole('button').count(),
  }).toEqual({ root: false, buttons: 0 })
})

test('a page that is loaded again keeps its access, and the URL gives it to nobody else', async () => {
  await using served = await serve()
  const url = await served.server.open()
  await using visit = await open(browser(), url)
  await visit.page.getByRole('option', { name: 'phi-4-mini' }).waitFor()
  await visit.page.reload()
  await visit.page.getByRole('option', { name: 'phi-4-mini' }).waitFor()

  await using other = await open(browser(), url)
  await other.page.getByRole('heading', { name: 'No access to the agent' }).waitFor()
  await other.page.getByText('metal-agent ui').waitFor()
  expect(await other.page.getByRole('option').count()).toBe(0)
})

test('a page whose tab is hidden is sent nothing, and goes on where it was once it is seen', async () => {
  await using served = await serve()
  const { agent } = served
  await using visit = await open(browser(), await served.server.open())
  const { page } = visit
  await page.getByRole('option', { name: 'phi-4-mini' }).click()
  await eventually(() => agent.listeners.logs === 1)
  const newest = { fileId: 'run-2', offset: 2_500 }
  agent.print({ lines: ['before it was hidden'], start: output.end, end: newest })
  await page.getByText('before it was hidden').waitFor()
  const seen = agent.listeners
  await turnTab(page, 'hidden')
  await eventually(() => agent.listeners.snapshots + agent.listeners.logs === 0)
  agent.show(sampleSnapshot({ revision: 2, services: [{ ...ready, revision: 2, message: 'Changed meanwhile.' }] }))
  await turnTab(page, 'visible')
  await page.getByRole('region', { name: 'phi-4-mini' }).getByText('Changed meanwhile.').waitFor()
  await eventually(() => agent.listeners.logs === 1)
  expect({ seen, again: agent.listeners, from: agent.logStreams.at(-1)?.from }).toEqual({
    seen: { snapshots: 1, logs: 1 },
    again: { snapshots: 1, logs: 1 },
    from: newest,
  })
})

test('a page that is opened in a hidden tab begins once it is seen', async () => {
  await using served = await serve()
  await using visit = await open(browser(), await served.server.open(), 'hidden')
  await visit.page.getByText('Connecting').first().waitFor()
  const hidden = served.agent.listeners.snapshots
  await turnTab(visit.page, 'visible')
  await visit.page.getByRole('option', { name: 'phi-4-mini' }).waitFor()
  expect(hidden).toBe(0)
})

test('an agent that ends is missed, and one that starts in its place asks for a new URL', async () => {
  const port = await freePort()
  const before = await serve(port)
  await using visit = await open(browser(), await before.server.open(port))
  const { page } = visit
  await page.getByRole('option', { name: 'phi-4-mini' }).waitFor()
  await before[Symbol.asyncDispose]()
  await page.getByText('What you see is from').waitFor()
  await page.getByRole('option', { name: 'phi-4-mini' }).waitFor()

  await using after = await serve(port)
  await page.getByRole('heading', { name: 'No access to the agent' }).waitFor()
  await page.goto(await after.server.open(port))
  await page.getByRole('option', { name: 'phi-4-mini' }).waitFor()
})

async function serve(port?: number) {
  const agent = new FakeAgent(sampleSnapshot({ services: [ready] }))
  agent.logs.current = output
  const server = new WindowServer({
    door: doorOf(agent),
    folder: builtWindow,
    onError: (error) => {
      throw error
    },
  })
  const used = Number(new URL(await server.open(port)).port)
  return { agent, server, port: used, [Symbol.asyncDispose]: () => server.close() }
}

function doorOf(agent: FakeAgent): AgentDoor {
  return {
    get: () => agent.shown,
    look: () => Promise.resolve(agent.shown),
    subscribe: (listener) => agent.follow({ next: listener, end: () => undefined }),
    command: ({ command, requestId }) => agent.command(command, requestId),
    query: (query, signal) => agent.query(query, signal),
    stream: (request, listener) => agent.stream(request, listener),
  }
}

async function open(browser: Browser, url: string, tab: DocumentVisibilityState = 'visible') {
  const context = await browser.newContext({ viewport: { width: 400, height: 980 } })
  const page = await context.newPage()
  if (tab === 'hidden') await page.addInitScript(turnTabInPage, tab)
  const complaints: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  await page.goto(url)
  return { page, complaints, [Symbol.asyncDispose]: () => context.close() }
}

/** A browser without a screen hides no tab by itself. */
const turnTab = (page: Page, state: DocumentVisibilityState) => page.evaluate(turnTabInPage, state)

function turnTabInPage(state: DocumentVisibilityState): void {
  Object.defineProperty(document, 'visibilityState', { configurable: true, value: state })
  document.dispatchEvent(new Event('visibilitychange'))
}
