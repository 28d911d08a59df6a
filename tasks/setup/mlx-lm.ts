import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buildOnce, partFolder } from './cache.ts'
import type { Part } from './part.ts'
import { findProgram } from './tools.ts'
import { installWheels, missingPython } from './wheels.ts'

const version = '0.32.2'
/** mlx-lm with everything it imports, as wheels for Linux and for Macs with Apple silicon. */
const requirements = join(import.meta.dirname, 'mlx-lm.requirements.txt')

const program = 'mlx_lm.server'

/** A virtual environment may be moved, but not the scripts in it, which name its first place. */
const launcher = (verb: string) => `#!/bin/sh
exec "$(dirname "$0")/venv/bin/python" -m mlx_lm${verb} "$@"
`
const programs = { [program]: launcher(' server'), mlx_lm: launcher('') }

const inputs = [readFileSync(requirements, 'utf8'), ...Object.values(programs)]

/** mlx-lm's server: the one METALBAR_MLX names, the one on PATH, else one made of PyPI's wheels. On Linux MLX computes on the processor. */
export const mlxLmPart: Part = {
  name: 'mlx-lm',
  about: `mlx-lm ${version}'s server; a minute and 400 MB, once`,
  required: true,
  find: () => findProgram(program, { variable: 'METALBAR_MLX', builtFolder: builtFolder() }),
  lacks: () => missingPython('install mlx-lm'),
  build: (logFile) => buildOnce(builtFolder(), (folder) => build(folder, logFile)),
}

const builtFolder = (): string => partFolder('mlx-lm', version, inputs)

async function build(folder: string, logFile: string): Promise<void> {
  await installWheels(folder, requirements, logFile)
  for (const [name, script] of Object.entries(programs)) await writeFile(join(folder, name), script, { mode: 0o755 })
}
