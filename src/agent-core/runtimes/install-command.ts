import { type Executable, findExecutable } from '../util/find-executable.ts'
import { shellWord } from '../../contract/shell.ts'

interface Source {
  /** What Homebrew calls it. */
  readonly formula?: string
  /** Where it has the formula, which is in none of its own places. */
  readonly tap?: string
  /** To be run once after that. */
  readonly setUp?: string
  /** What the Python package index calls it, from the version on that this agent is tested with, and what it needs beside it. */
  readonly packages?: Readonly<Record<'darwin' | 'linux', readonly [string, ...string[]]>>
}

/** A runtime that is not in this table is installed by hand: neither Homebrew nor the Python package index has it. */
const sources: Readonly<Record<string, Source>> = {
  'llama-server': { formula: 'llama.cpp' },
  'mlx-lm': {
    formula: 'mlx-lm',
    packages: { darwin: ['mlx-lm>=0.32.2'], linux: ['mlx-lm>=0.32.2', 'mlx[cpu]'] },
  },
  'vllm-swift': { formula: 'TheTom/tap/vllm-swift', setUp: 'vllm-swift setup' },
  ollama: { formula: 'ollama' },
  omlx: { formula: 'jundot/omlx/omlx', tap: 'jundot/omlx https://github.com/jundot/omlx' },
}

export interface InstallSearch {
  readonly system: 'darwin' | 'linux'
  /** The PATH variable. */
  readonly path: string | undefined
  /** For tests: where Homebrew is looked for. */
  readonly homebrewFolders?: readonly string[]
}

/** The line that installs the runtime on this machine, by Homebrew, uv or pip, whichever is here; undefined where none of them can. */
export async function installCommand(runtime: string, search: InstallSearch): Promise<string | undefined> {
  const { formula, tap, setUp, packages } = sources[runtime] ?? {}
  const isHere = async (tool: string) => (await findTool(tool, search)).kind === 'found'
  if (formula !== undefined && (await isHere('brew'))) {
    const before = tap === undefined ? [] : [`brew tap ${tap}`]
    return [...before, `brew install ${formula}`, ...(setUp === undefined ? [] : [setUp])].join(' && ')
  }
  if (!packages) return undefined
  const [first, ...further] = packages[search.system].map(shellWord)
  if (await isHere('uv')) return ['uv tool install', first, ...further.flatMap((one) => ['--with', one])].join(' ')
  if (await isHere('python3')) return ['python3 -m pip install --user', first, ...further].join(' ')
  return undefined
}

const findTool = (name: string, search: InstallSearch): Promise<Executable> =>
  findExecutable({ name, notInstalled: { darwin: '', linux: '' } }, search)
