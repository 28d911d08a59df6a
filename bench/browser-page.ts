import type { Browser, CDPSession, Page } from 'playwright'
import { z } from 'zod'
import { httpPaths } from '../src/contract/http.ts'

/** Until what was said of a thousand rows is drawn; nothing takes as long. */
const limitMs = 30_000

/** A page of the window in a context of its own, so that nothing of an earlier one is known to it. */
export class BrowserPage implements AsyncDisposable {
  readonly #page: Page
  readonly #inspector: CDPSession

  private constructor(page: Page, inspector: CDPSession) {
    this.#page = page
    this.#inspector = inspector
  }

  /** Once the first service is shown. */
  static async open(browser: Browser, url: string): Promise<BrowserPage> {
    const context = await browser.newContext({ viewport: { width: 400, height: 980 } })
    const page = await context.newPage()
    await page.addInitScript({ content: watch })
    await page.goto(url)
    await page.getByRole('option').first().waitFor({ timeout: limitMs })
    return new BrowserPage(page, await context.newCDPSession(page))
  }

  /** Milliseconds from the beginning of the navigation to the first thing that is seen, and to the first service. */
  async firstPaints(): Promise<{ readonly anything: number; readonly service: number }> {
    await this.#page.waitForFunction('window.watched.service !== undefined')
    return z
      .object({ anything: z.number(), service: z.number() })
      .parse(
        await this.#page.evaluate(
          `({ anything: performance.getEntriesByName('first-contentful-paint')[0]?.startTime, service: window.watched.service })`,
        ),
      )
  }

  /** Milliseconds from the arrival of each snapshot so far to its being painted. */
  async paints(): Promise<number[]> {
    return z.array(z.number()).parse(await this.#page.evaluate('window.watched.paints'))
  }

  /** Lines that the agent has sent it so far. */
  async lines(): Promise<number> {
    return z.number().parse(await this.#page.evaluate('window.watched.lines'))
  }

  /** A browser without a screen hides no tab by itself. */
  async hide(): Promise<void> {
    await this.#page.evaluate(
      `Object.defineProperty(document, 'visibilityState', { configurable: true, value: 'hidden' })
      document.dispatchEvent(new Event('visibilitychange'))`,
    )
  }

  /** Bytes of JavaScript that are left when all garbage is collected. */
  async heapBytes(): Promise<number> {
    await this.#inspector.send('HeapProfiler.collectGarbage')
    const { usedSize } = await this.#inspector.send('Runtime.getHeapUsage')
    return usedSize
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#page.context().close()
  }
}

/**
 * In the page, before its own scripts: what the agent sends is looked at on its way, and a change of the page after it counts as painted
 * in the task after the next frame. A string, since nothing here knows of a DOM.
 */
const watch = `{
  const watched = { lines: 0, paints: [], service: undefined }
  window.watched = watched
  const send = window.fetch
  let arrivedAt
  const count = new TransformStream({
    transform(chunk, controller) {
      const lines = chunk.filter((byte) => byte === 10).length
      watched.lines += lines
      if (lines > 0) arrivedAt = performance.now()
      controller.enqueue(chunk)
    },
  })
  window.fetch = async (...request) => {
    const response = await send(...request)
    if (!String(request[0]).includes('${httpPaths.follow}')) return response
    return new Response(response.body.pipeThrough(count), response)
  }
  const { port1, port2 } = new MessageChannel()
  const painted = []
  port2.onmessage = () => painted.shift()()
  const afterPaint = (what) =>
    requestAnimationFrame(() => {
      painted.push(what)
      port1.postMessage('')
    })
  let hasService = false
  new MutationObserver(() => {
    if (!hasService && document.querySelector('[role=option]')) {
      hasService = true
      afterPaint(() => (watched.service = performance.now()))
    }
    if (arrivedAt === undefined) return
    const from = arrivedAt
    arrivedAt = undefined
    afterPaint(() => watched.paints.push(performance.now() - from))
  }).observe(document, { subtree: true, childList: true, characterData: true, attributes: true })
}`
