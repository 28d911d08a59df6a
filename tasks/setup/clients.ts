import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildOnce, partFolder } from './cache.ts'
import type { Part } from './part.ts'
import { isExecutable } from './tools.ts'
import { installWheels, missingPython } from './wheels.ts'

const requirements = join(import.meta.dirname, 'clients.requirements.txt')
const folderOf = (): string => partFolder('clients', '1', [readFileSync(requirements, 'utf8')])

/** A Python with the clients that people use most: those of OpenAI, Anthropic and LiteLLM. */
export const clientsPart: Part = {
  name: 'clients',
  about: 'the Python clients of OpenAI, Anthropic and LiteLLM, 60 wheels, once',
  required: false,
  find: () => {
    const path = join(folderOf(), 'venv', 'bin', 'python')
    return isExecutable(path)
      ? { found: true, path, origin: 'Python wheels' }
      : { found: false, reason: 'the Python clients are not installed: run `make test-long`' }
  },
  lacks: () => missingPython('leave the test out'),
  build: (logFile) => buildOnce(folderOf(), (folder) => installWheels(folder, requirements, logFile)),
}
