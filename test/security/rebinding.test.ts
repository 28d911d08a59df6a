import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { ClientDoor } from '../../src/gateway/client-door.ts'
import { Listeners } from '../../src/gateway/listeners.ts'
import { PublishedDoor } from '../../src/gateway/published-door.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { skipWhen } from '../support/skip.ts'
import { findBrowser, startBrowser } from '../support/window/browser.ts'
import { engine, routeTo } from '../unit/gateway/engines.ts'

const found = findBrowser()
const published = '127.0.0.2'
skipWhen('missing' in found ? found.missing : undefined)
skipWhen(process.platform === 'linux' ? undefined : `only Linux has ${published} from the start`)

/** Names of a stranger's DNS that lead to this machine by now; one is also the Service's, as Pods call it. */
const rebound = {
  'rebound.example': '127.0.0.1',
  'quick.ai': published,
  'quick.ai.svc.evil.example': published,
}
const rules = Object.entries(rebound).map(([name, address]) => `MAP ${name} ${address}`)

/** What the page is answered by the host that it came from. */
const askOwnHost = (page: Page): Promise<unknown> =>
  page.evaluate(async () => {
    const statusOf = (path: string, options: RequestInit = {}): Promise<number> =>
      fetch(path, options).then(
        ({ status }) => status,
        () => 0,
      )
    const body = JSON.stringify({ model: 'quick', messages: [{ role: 'user', content: 'hello' }] })
    return Promise.all([
      ...['/health', '/v1/models', '/props', '/ai/quick/health'].map((path) => statusOf(path)),
      ...['/v1/chat/completions', '/completion'].map((path) => statusOf(path, { method: 'POST', body })),
    ])
  })

test('a page whose name is made to lead to this machine reaches no model, at neither door', async () => {
  if ('missing' in found) return
  await using quick = await engine((request, response) => {
    request.resume()
    request.once('end', () => response.end('{}'))
  })
  await using stack = new AsyncDisposableStack()
  const [client, door] = [new ClientDoor(() => undefined), new PublishedDoor(() => undefined)]
  const listeners = stack.adopt(new Listeners(() => undefined), (all) => all.set([]))
  const port = await freePort()
  const route = routeTo('quick', quick.port, {
    namespace: 'ai',
    published: {
      address: published,
      engine: { port: quick.port, runtime: 'llama-server' },
      access: { servicePorts: [8080], key: 'none' },
    },
  })
  client.routes = [route]
  listeners.set([{ host: '127.0.0.1', port, onConnection: (socket) => client.connect(socket) }, ...door.told([route])])
  await eventually(() => listeners.states.filter(({ problem }) => problem === undefined).length === 2)
  const browser = stack.adopt(await startBrowser(found.path, [`--host-resolver-rules=${rules.join(',')}`]), (one) =>
    one.close(),
  )
  const page = await browser.newPage()
  const answers: Record<string, unknown> = {}
  for (const [name, address] of Object.entries(rebound)) {
    const at = address === published ? quick.port : port
    const answer = await page.goto(`http://${name}:${at}/`)
    answers[name] = [answer?.status(), await askOwnHost(page)]
  }
  const refused = [421, Array.from({ length: 6 }, () => 421)]
  expect(answers).toEqual(Object.fromEntries(Object.keys(rebound).map((name) => [name, refused])))
  expect(quick.seen).toEqual([])
  // By its own name the same page of the client proxy reaches it, so that the names above are what is refused.
  await page.goto(`http://127.0.0.1:${port}/v1/models`)
  expect(await askOwnHost(page)).toEqual([200, 200, 200, 200, 200, 200])
})
