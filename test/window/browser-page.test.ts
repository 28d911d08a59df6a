import type { Browser } from 'playwright-core'
import { expect, inject, test } from 'vitest'
import type { AgentDoor } from '../../src/serve/agent-door.ts'
import { WindowServer } from '../../src/serve/http/window-server.ts'
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

test('how power is turned on depends on what is set to measure, and nothing is to be turned on but on a Mac', async () => {
  await using served = await serve()
  served.agent.known.settings = {
    settings: [{ name: 'powerSource', value: 'macmon', from: 'person', help: '' }],
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
    folder: inject('windowFolder'),
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
    query: (query) => agent.query(query),
    stream: (request, listener) => agent.stream(request, listener),
  }
}

async function open(browser: Browser, url: string) {
  const context = await browser.newContext({ viewport: { width: 400, height: 980 } })
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  await page.goto(url)
  return { page, complaints, [Symbol.asyncDispose]: () => context.close() }
}
