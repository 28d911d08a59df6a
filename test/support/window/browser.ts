import { type Browser, chromium } from 'playwright'
import { chromiumPart } from '../../../tasks/setup/chromium.ts'

/** Nothing is asked of the network but what a test asks. */
const quiet = [
  '--disable-gpu',
  '--disable-quic',
  '--disable-sync',
  '--disable-background-networking',
  '--disable-component-update',
  '--no-first-run',
  // Nothing that starts before it is asked for.
  '--renderer-process-limit=1',
]

/** Chromium refuses to sandbox what root runs. */
const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : []

/** `more`: further arguments of Chromium. */
export function startBrowser(executablePath: string, more: readonly string[] = []): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: [...quiet, ...asRoot, ...more],
    // Signals are for the program that started it, which would else go on without the browser.
    ...{ handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false },
  })
}

/** The browser of this machine, or in one sentence why there is none. */
export function findBrowser(): { readonly path: string } | { readonly missing: string } {
  const found = chromiumPart.find()
  return found.found ? { path: found.path } : { missing: found.reason }
}
