import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'
import { connectionWords } from './src/renderer/words/window.ts'

const root = import.meta.dirname

/** What is painted before the script has run, in the words that the window then draws itself. */
const wordsBeforeScript: Plugin = {
  name: 'words-before-script',
  transformIndexHtml: (html) => html.replaceAll('__CONNECTING__', connectionWords.connecting),
}

/** The window: static files that a strict content security policy lets run, so nothing inline. */
export default defineConfig({
  root: `${root}/src/renderer`,
  base: './',
  plugins: [react(), wordsBeforeScript],
  build: {
    outDir: `${root}/out/renderer`,
    emptyOutDir: true,
    license: { fileName: 'renderer.licences.json' },
    target: ['chrome130', 'safari18', 'firefox132'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // In kB; it comes from this machine, not over a network.
    chunkSizeWarningLimit: 800,
  },
})
