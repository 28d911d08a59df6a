import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright'
import { z } from 'zod'
import type { RuntimeFigures, ServiceView } from '../src/contract/service.ts'
import type { AgentSnapshot } from '../src/contract/snapshot.ts'
import { sampleSnapshot } from '../test/support/sample-snapshot.ts'
import { temporaryFolder } from '../test/support/temporary-folder.ts'
import { findBrowser, startBrowser } from '../test/support/window/browser.ts'
import { buildWindow } from '../test/support/window/build-window.ts'
import { FakeAgent } from '../test/support/window/fake-agent.ts'
import { memory } from '../test/support/window/scene-gauges.ts'
import { done, fetching, gigabyte, ready } from '../test/support/window/scene-services.ts'
import { serveWindow } from '../test/support/window/serve-window.ts'
import { WindowPages } from '../test/support/window/window-pages.ts'
import { animatedWebp, type AnimationFrame } from './animated-webp.ts'

/** `node tasks/recording.ts`: a model from its download to its first answers, as the window shows it, into assets/screenshots/window.webp. */
const target = join(import.meta.dirname, '../assets/screenshots/window.webp')
const mostBytes = 1_000_000
const size = { width: 400, height: 620 }
const frameMs = 200
const secondsOfStory = { idle: 1, fetch: 3, start: 2, answer: 6 }
/** How much faster than the frames pass the clock of the story runs, so that two minutes of power are drawn. */
const storyMsPerFrame = 2_000
const quality = 0.82

/** Runs in a page of its own: where a picture differs from the last one, and that part of it as WebP; null where nothing does. */
const changeInPage = `async (png) => {
  const bitmap = await createImageBitmap(await (await fetch('data:image/png;base64,' + png)).blob())
  const { width, height } = bitmap
  const canvas = new OffscreenCanvas(width, height)
  const context = canvas.getContext('2d', { alpha: false, willReadFrequently: true })
  context.drawImage(bitmap, 0, 0)
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer)
  const before = globalThis.before ?? new Uint32Array(0)
  globalThis.before = pixels
  let [left, top, right, bottom] = [width, height, 0, 0]
  for (let at = 0; at < pixels.length; at++) {
    if (pixels[at] === before[at]) continue
    const [x, y] = [at % width, Math.floor(at / width)]
    ;[left, top] = [Math.min(left, x), Math.min(top, y)]
    ;[right, bottom] = [Math.max(right, x + 1), Math.max(bottom, y + 1)]
  }
  if (right === 0) return null
  const [x, y] = [left - (left % 2), top - (top % 2)]
  const part = new OffscreenCanvas(right - x, bottom - y)
  part.getContext('2d', { alpha: false }).drawImage(bitmap, -x, -y)
  const blob = await part.convertToBlob({ type: 'image/webp', quality: ${quality} })
  const bytes = new Uint8Array(await blob.arrayBuffer())
  return { x, y, width: part.width, height: part.height, webp: bytes.toBase64() }
}`
const changeShape = z.object({ x: z.int(), y: z.int(), width: z.int(), height: z.int(), webp: z.base64() }).nullable()

const found = findBrowser()
if ('missing' in found) {
  console.error(`No recording: ${found.missing}`)
  process.exit(1)
}
await using folder = await temporaryFolder()
await buildWindow(folder.dir)
await using served = await serveWindow(folder.dir)
await using browser = await startBrowser(found.path)
const agent = new FakeAgent(momentOf(0))
await using window = await new WindowPages(browser, served.origin).open({
  ...{ agent, size, wishes: { reducedMotion: 'reduce' } },
})
await window.page.locator('main').waitFor()
const encoder = await browser.newPage()
const frames: AnimationFrame[] = []
const seconds = Object.values(secondsOfStory).reduce((sum, one) => sum + one, 0)
for (let frame = 0; frame < (seconds * 1_000) / frameMs; frame++) {
  agent.show(momentOf(frame))
  await window.page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
  await addFrame(encoder, await window.page.screenshot())
}
const file = animatedWebp(size.width, size.height, frames)
if (file.length > mostBytes) throw new Error(`The recording has ${file.length} bytes, more than ${mostBytes}.`)
await writeFile(target, file)
console.log(`${target}: ${frames.length} frames, ${Math.round(file.length / 1_000)} kB`)

/** Adds what has changed since the last frame, which else stays longer. */
async function addFrame(page: Page, png: Buffer): Promise<void> {
  const change = changeShape.parse(await page.evaluate(`(${changeInPage})(${JSON.stringify(png.toString('base64'))})`))
  const last = frames.at(-1)
  if (change !== null) frames.push({ ...change, webp: Buffer.from(change.webp, 'base64'), ms: frameMs })
  else if (last) frames[frames.length - 1] = { ...last, ms: last.ms + frameMs }
}

/** The window's story, at one of its frames. */
function momentOf(frame: number): AgentSnapshot {
  const second = (frame * frameMs) / 1_000
  const { idle, fetch, start } = secondsOfStory
  const share = (from: number, length: number): number => Math.min(1, Math.max(0, (second - from) / length))
  const [fetched, started] = [share(idle, fetch), share(idle + fetch, start)]
  const isAnswering = started === 1
  const heldBytes = started * 18.9 * gigabyte
  const now = new Date(Date.parse(sampleSnapshot().now) + frame * storyMsPerFrame).toISOString()
  const watts = (isAnswering ? 38 : 7) + 2 * Math.sin(frame)
  return sampleSnapshot({
    ...{ revision: frame + 1, now, services: second < idle ? [ready] : [ready, added(fetched, started)] },
    figures: {
      ready: { footprintBytes: 9.1 * gigabyte, runtime: atWork(frame, false) },
      fetching: {
        ...(fetched < 1 && { progress: progressAt(fetched) }),
        ...(heldBytes > 0 && { footprintBytes: heldBytes }),
        ...(isAnswering && { runtime: atWork(frame, true), powerShareWatts: watts - 7 }),
      },
    },
    memory: { ...memory, modelsBytes: 9.1 * gigabyte + heldBytes, reservedBytes: 0, waiting: [] },
    memoryFigures: { availableBytes: 72 * gigabyte - heldBytes },
    power: { state: 'measuring', message: 'Measured every second.' },
    powerFigures: { combinedWatts: watts, gpuWatts: watts * 0.8, cpuWatts: watts * 0.2, aneWatts: 0 },
  })
}

function progressAt(share: number) {
  const totalBytes = 18_600_000_000
  return { doneBytes: Math.round(share * totalBytes), totalBytes, bytesPerSecond: 61_000_000 }
}

function added(fetched: number, started: number): ServiceView {
  if (fetched < 1) return fetching
  if (started < 1) {
    const message = 'The server is loading the model.'
    const steps = { ...fetching.steps, fetched: done, started: done, healthy: { status: 'active', message } as const }
    return { ...fetching, revision: 2, state: 'starting', reason: 'Starting', message, steps, pid: 4712 }
  }
  const message = 'Serving at 192.168.1.20:51235.'
  return {
    ...ready,
    revision: 3,
    uid: fetching.uid,
    name: fetching.name,
    model: fetching.model,
    message,
    pid: 4712,
    port: 51_235,
  }
}

function atWork(frame: number, isBusy: boolean): RuntimeFigures {
  return {
    state: 'reported',
    requestsRunning: isBusy ? 1 : 0,
    requestsWaiting: 0,
    ...(isBusy && { generatedTokensPerSecond: 61 + 3 * Math.sin(frame / 2) }),
  }
}
