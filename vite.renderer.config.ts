import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

const root = import.meta.dirname

/** The window: static files that a strict content security policy lets run, so nothing inline. */
export default defineConfig({
  root: `${root}/src/renderer`,
  base: './',
  plugins: [react()],
  build: {
    outDir: `${root}/out/renderer`,
    emptyOutDir: true,
    target: ['chrome130', 'safari18', 'firefox132'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
})
