import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'

const root = path.resolve(import.meta.dirname, '../../..')

/** Which compilers V8 asks for a hot loop. */
async function compilersOf(options: readonly string[]): Promise<Set<string | undefined>> {
  const loop = 'const f = (x) => (x * 3 + 1) % 1000; let n = 1; for (let i = 0; i < 2e6; i++) n = f(n)'
  const { stdout } = await execa(process.execPath, ['--trace-opt', ...options, '--eval', loop])
  return new Set([...stdout.matchAll(/\(target (\w+)\)/g)].map(([, target]) => target))
}

test("with the launcher's options Node.js runs, without the biggest compiler of V8", async () => {
  const launcher = await readFile(path.join(root, 'bin/metal-agent'), 'utf8')
  const [, options = ''] = /exec "\$node" (.*) \\\n/.exec(launcher) ?? []
  const usual = await compilersOf([])
  const small = await compilersOf(options.split(' '))
  expect([usual.has('TURBOFAN_JS'), small.has('TURBOFAN_JS')]).toEqual([true, false])
})
