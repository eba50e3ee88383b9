import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// Files have the same names always: the program knows them, and tells browsers by a tag whether they are the same.
export default defineConfig({
  plugins: [preact({ devToolsEnabled: false })],
  base: "/ui/",
  build: {
    outDir: "../built",
    emptyOutDir: true,
    modulePreload: false,
    target: "es2022",
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: (asset) => (asset.names[0]?.endsWith(".css") ? "page.css" : "[name][extname]"),
        inlineDynamicImports: true,
      },
    },
  },
});
