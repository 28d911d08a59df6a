import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'

const root = path.resolve(import.meta.dirname, '../../..')
const module = path.join(root, 'src/cli/small-engine.ts')

/** Which compilers V8 asks for a hot loop. */
async function compilersOf(options: readonly string[], before: string): Promise<Set<string | undefined>> {
  const loop = 'const f = (x) => (x * 3 + 1) % 1000; let n = 1; for (let i = 0; i < 2e6; i++) n = f(n)'
  const { stdout } = await execa(process.execPath, [
    ...['--trace-opt', ...options, '--input-type=module', '--eval', `${before}; ${loop}`],
  ])
  return new Set([...stdout.matchAll(/\(target (\w+)\)/g)].map(([, target]) => target))
}

test('the agent keeps the biggest compiler of V8 out, without an option that Node.js was started with', async () => {
  const usual = await compilersOf([], '')
  const small = await compilersOf([], `(await import(${JSON.stringify(module)})).keepEngineSmall()`)
  expect([usual.has('TURBOFAN_JS'), small.has('TURBOFAN_JS')]).toEqual([true, false])
})

test("with the launcher's options Node.js takes the compiled code of its own modules", async () => {
  const launcher = await readFile(path.join(root, 'bin/metal-agent'), 'utf8')
  const [, options = ''] = /exec "\$node" (.*) "\$bundle"/.exec(launcher) ?? []
  const script = `
    const { internalBinding } = require('internal/test/binding')
    for (const name of ['http', 'https', 'tls', 'crypto', 'worker_threads', 'child_process']) require(name)
    const { compiledWithCache, compiledWithoutCache } = internalBinding('builtins').getCacheUsage()
    console.log(JSON.stringify([compiledWithCache.size > 20, [...compiledWithoutCache]]))`
  const started = [...options.split(' '), '--expose-internals', '--no-warnings', '--eval', script]
  const { stdout } = await execa(process.execPath, started)
  expect([options.length > 0, JSON.parse(stdout)]).toEqual([true, [true, []]])
})
