/** Switches of llama.cpp that change how it computes, and nothing else. */
const harmless: ReadonlySet<string> = new Set([
  'GGML_METAL_BF16_DISABLE',
  'GGML_METAL_CONCURRENCY_DISABLE',
  'GGML_METAL_FUSION_DISABLE',
  'GGML_METAL_GRAPH_OPTIMIZE_DISABLE',
  'GGML_METAL_NO_RESIDENCY',
  'OMP_NUM_THREADS',
])

/**
 * What loads code into a process or one that it starts, decides where files are looked for, or stands for an argument, whose rules
 * would not be asked then.
 */
const neverPatterns: readonly RegExp[] = [
  /^(LD|DYLD|VK|OCL_ICD|METALBAR)_/,
  /^GGML_.*(BACKEND|PATH)/,
  /^LLAMA_(ARG_|API_KEY|CACHE)/,
  /^(PATH|HOME|SHELL|IFS|TMPDIR|ENV|BASH_ENV|ZDOTDIR|PROMPT_COMMAND|PS4|SSLKEYLOGFILE|OPENSSL_CONF|GCONV_PATH|LOCPATH)$/,
  /^BASH_FUNC_/,
  /^(PYTHON(STARTUP|PATH|HOME|INSPECT|USERBASE)|NODE_(OPTIONS|PATH)|PERL5?(OPT|LIB)|PERL5DB|RUBY(OPT|LIB))$/,
  /^(JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|LUA_INIT.*|LUA_C?PATH.*)$/,
]

const usualName = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Whether a server gets a variable of its spec; `never` whatever a person allowed. */
type VariableVerdict = 'passed' | 'leftOut' | 'never'

/** `allowed`: `--allowed-env`. */
export function judgeVariable(name: string, allowed: readonly string[]): VariableVerdict {
  if (!usualName.test(name) || neverPatterns.some((pattern) => pattern.test(name))) return 'never'
  return harmless.has(name) || allowed.includes(name) ? 'passed' : 'leftOut'
}

/** Of a variable that is never passed on: whether it makes a server, or a program that the server starts, run what it names. */
export const loadsCode = (name: string): boolean =>
  !/^(HOME|SHELL|TMPDIR|LLAMA_.*)$/.test(name) || /^LLAMA_ARG_(MCP|TOOLS|AGENT|RPC|UI_MCP)/.test(name)
