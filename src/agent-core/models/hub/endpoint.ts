import { isRepoElement, isRevision, type HubAddress } from '../source.ts'

export const publicHub = 'https://huggingface.co'

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Where the Hub is asked: the setting, else `HF_ENDPOINT`, else the public Hub; without a slash at its end. A sentence where that is no address.
 * `title`: of the setting, for that sentence.
 */
export function hubEndpoint(
  env: Environment,
  setting?: string,
  title = "The Hub's address",
): { endpoint: string } | { problem: string } {
  const [given, name] = setting === undefined ? [env['HF_ENDPOINT'] ?? '', 'HF_ENDPOINT'] : [setting, title]
  if (given.trim() === '') return { endpoint: publicHub }
  const url = URL.parse(given.trim())
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === '' || url.search !== '' || url.hash !== '') {
    return { problem: `${name} is not an https:// address: write it as ${publicHub}, or remove it.` }
  }
  if (url.username !== '' || url.password !== '') {
    return { problem: `${name} holds a password, which would get into logs: give the token as HF_TOKEN instead.` }
  }
  return { endpoint: url.href.replace(/(?<!\/)\/+$/, '') }
}

/** As `huggingface_hub` reads `HF_HUB_OFFLINE`. */
export function isHubOffline(env: Environment): boolean {
  return /^(?:1|on|yes|true)$/i.test((env['HF_HUB_OFFLINE'] ?? '').trim())
}

/** What a page or file address of the Hub (or of its mirror `endpoint`) names; undefined for any other address. */
export function hubAddressOf(
  address: string,
  endpoint: string,
): (HubAddress & { readonly viewer: boolean }) | undefined {
  const url = URL.parse(address)
  const base = new URL(endpoint)
  if (url === null) return undefined
  const isEndpoint = url.host === base.host && url.pathname.startsWith(prefixOf(base))
  const isPublic = url.protocol === 'https:' && publicHosts.includes(url.host)
  if (!isEndpoint && !isPublic) return undefined
  let elements: string[]
  try {
    elements = url.pathname
      .slice(isEndpoint ? prefixOf(base).length : 1)
      .replace(/(?<!\/)\/+$/, '')
      .split('/')
      .map(decodeURIComponent)
  } catch {
    return undefined
  }
  const [owner = '', named = '', verb, revision, ...path] = elements
  const [name = '', quantization] = named.split(':')
  if (!isRepoElement(owner) || !isRepoElement(name) || reserved.has(owner)) return undefined
  if (verb === undefined && /\.(?:gguf|safetensors|bin|pth?)$/i.test(name)) return undefined
  const repo = { repo: `${owner}/${name}`, ...(quantization !== undefined && { quantization }) }
  // The page that the Hub's list of files opens for one of them.
  const shown = url.searchParams.get('show_file_info') ?? ''
  const ofPage = { ...repo, viewer: shown !== '', ...(shown !== '' && { path: shown }) }
  if (verb === undefined || verb === 'discussions') return ofPage
  if (revision === undefined || !isRevision(revision)) return undefined
  if (path.length === 0) return /^(?:tree|commits?)$/.test(verb) ? { ...ofPage, revision } : undefined
  if (!/^(?:resolve|blob|raw|tree|blame|edit)$/.test(verb)) return undefined
  return { ...repo, revision, viewer: /^(?:blob|raw|blame|edit)$/.test(verb), path: path.join('/') }
}

/** The address of a file's bytes. */
export function fileUrl(endpoint: string, repo: string, revision: string, path: string): string {
  return `${endpoint}/${repo}/resolve/${encodeURIComponent(revision)}/${path.split('/').map(encodeURIComponent).join('/')}`
}

/** Hosts (with a port that is not the scheme's) that are the Hub itself at this endpoint, and may know its token. */
export function hubHosts(endpoint: string): readonly string[] {
  const { host } = new URL(endpoint)
  return host === 'huggingface.co' ? publicHosts : [host]
}

const publicHosts: readonly string[] = ['huggingface.co', 'hf.co']

/** First elements of the Hub's own pages and of what is no model. */
const reserved = new Set([
  'api',
  'datasets',
  'spaces',
  'buckets',
  'docs',
  'models',
  'settings',
  'collections',
  'papers',
])

function prefixOf({ pathname }: URL): string {
  return pathname.endsWith('/') ? pathname : `${pathname}/`
}
